"""A policy's parameters by names that say what they are, with a JSON description: what acts without JAX.

docs/policy_file.md explains each name; `cvpo.policies.actor` acts by them.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from cvpo.algorithms.base import Portable
from cvpo.algorithms.shared import networks
from cvpo.algorithms.shared.networks import MLP


def gaussian_policy(network: MLP, action_size: int, initial_scale: float, min_scale: float) -> Portable:
    """Of `networks.gaussian_apply`: the network gives the mean and the noise's Cholesky factor."""
    noise = {
        "from": "network",
        "shift": float(networks.scale_shift(initial_scale, min_scale)),
        "smallest": min_scale,
        "off_diagonal": initial_scale,
    }
    return Portable(
        {"kind": "gaussian", "activation": "relu", "mean": "tanh", "noise": noise},
        _layers(network, {"mean": action_size, "noise": None}),
    )


def plain_gaussian_policy(network: MLP, scale: jax.Array, activation: str) -> Portable:
    """A mean without bounds and noise of one scale [d] in every state."""
    return Portable(
        {"kind": "gaussian", "activation": activation, "mean": "linear", "noise": {"from": "constant"}},
        _layers(network, {"mean": None}) | {"actor/noise/scale": scale},
    )


def squashed_policy(network: MLP, action_size: int) -> Portable:
    """Of `networks.squashed_apply`: tanh of a normal, whose mean and scale the network gives."""
    low, high = networks.LOG_SCALES
    noise = {"from": "network", "lowest_log": low, "highest_log": high}
    return Portable(
        {"kind": "squashed", "activation": "relu", "mean": "tanh", "noise": noise},
        _layers(network, {"mean": action_size, "noise": None}),
    )


def deterministic_policy(network: MLP, action_size: int, noise: float) -> Portable:
    """Of `networks.deterministic_apply`; the noise is that of training."""
    return Portable(
        {"kind": "deterministic", "activation": "relu", "mean": "tanh", "noise": {"from": "constant"}},
        _layers(network, {"mean": None}) | {"actor/noise/scale": jnp.full(action_size, noise)},
    )


def categorical_policy(network: MLP, activation: str = "relu") -> Portable:
    return Portable({"kind": "categorical", "activation": activation}, _layers(network, {"logits": None}))


def choices_policy(network: MLP, sizes: Sequence[int], activation: str = "relu") -> Portable:
    """Several choices at once, with so many options each."""
    description = {"kind": "choices", "activation": activation, "choices": list(sizes)}
    return Portable(description, _layers(network, {"logits": None}))


def _layers(network: MLP, heads: dict[str, int | None]) -> dict[str, jax.Array]:
    """Hidden layers by number; the last one cut into heads of these widths, of which the last takes what remains."""
    *hidden, (weight, bias) = network
    arrays: dict[str, jax.Array] = {}
    for i, (w, b) in enumerate(hidden):
        arrays |= {f"actor/layer_{i}/weight": w, f"actor/layer_{i}/bias": b}
    start = 0
    for name, width in heads.items():
        columns = slice(start, None if width is None else start + width)
        arrays |= {f"actor/{name}/weight": weight[:, columns], f"actor/{name}/bias": bias[columns]}
        start += width or 0
    return arrays
