"""Networks as plain pytrees and functions: multilayer perceptrons, the actors' heads, the critics.

Parameters are tuples of (weight, bias) so that a checkpoint is just arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from cvpo.algorithms.shared.distributions import (
    Categorical,
    Choices,
    Gaussian,
    SquashedGaussian,
    log_softmax_each,
)

Activation = Callable[[jax.Array], jax.Array]
MLP = tuple[tuple[jax.Array, jax.Array], ...]

# Smallest standard deviation of a policy, as a fraction of the action range's half width.
MIN_SCALE = 1e-3
LOG_SCALES = (-5.0, 2.0)  # of a squashed policy, before the tanh


def mlp_init(key: jax.Array, sizes: Sequence[int], last_scale: float = 1.0) -> MLP:
    """Orthogonal weights and zero biases; `last_scale` shrinks the last layer."""
    keys = jax.random.split(key, len(sizes) - 1)
    layers = []
    for i, (k, rows, columns) in enumerate(zip(keys, sizes[:-1], sizes[1:], strict=True)):
        gain = last_scale if i == len(sizes) - 2 else 2**0.5
        layers.append((jax.nn.initializers.orthogonal(gain)(k, (rows, columns)), jnp.zeros(columns)))
    return tuple(layers)


def mlp_apply(params: MLP, x: jax.Array, activation: Activation = jax.nn.relu) -> jax.Array:
    for weight, bias in params[:-1]:
        x = activation(x @ weight + bias)
    weight, bias = params[-1]
    return x @ weight + bias


# Actors -------------------------------------------------------------------------------------------------------------


def gaussian_init(key: jax.Array, obs_size: int, action_size: int, hidden: Sequence[int], full_covariance: bool) -> MLP:
    scales = action_size * (action_size + 1) // 2 if full_covariance else action_size
    return mlp_init(key, (obs_size, *hidden, action_size + scales), last_scale=0.01)


def gaussian_apply(
    params: MLP, obs: jax.Array, action_size: int, initial_scale: float, min_scale: float = MIN_SCALE
) -> Gaussian:
    """A normal whose mean lies in [-1, 1] and whose Cholesky factor is `initial_scale` times the identity at first."""
    out = mlp_apply(params, obs)
    mean, raw = jnp.tanh(out[..., :action_size]), out[..., action_size:]
    diagonal = jax.nn.softplus(raw[..., :action_size] + scale_shift(initial_scale, min_scale)) + min_scale
    tril = diagonal[..., :, None] * jnp.eye(action_size)
    if raw.shape[-1] > action_size:
        rows, columns = jnp.tril_indices(action_size, -1)
        tril = tril.at[..., rows, columns].set(initial_scale * raw[..., action_size:])
    return Gaussian(mean, tril)


def scale_shift(initial_scale: float, min_scale: float) -> jax.Array:
    """What shifts the softplus of a scale, so that an output of zero means the initial scale."""
    return jnp.log(jnp.expm1(initial_scale - min_scale))


def squashed_init(key: jax.Array, obs_size: int, action_size: int, hidden: Sequence[int]) -> MLP:
    return mlp_init(key, (obs_size, *hidden, 2 * action_size), last_scale=0.01)


def squashed_apply(params: MLP, obs: jax.Array) -> SquashedGaussian:
    mean, log_scale = jnp.split(mlp_apply(params, obs), 2, axis=-1)
    # a smooth map onto its range keeps the entropy's gradient alive at the ends
    low, high = LOG_SCALES
    log_scale = low + 0.5 * (high - low) * (jnp.tanh(log_scale) + 1)
    return SquashedGaussian(mean, jnp.exp(log_scale))


def deterministic_apply(params: MLP, obs: jax.Array) -> jax.Array:
    return jnp.tanh(mlp_apply(params, obs))


def categorical_apply(params: MLP, obs: jax.Array) -> Categorical:
    return Categorical(mlp_apply(params, obs))


def choices_apply(params: MLP, obs: jax.Array, sizes: Sequence[int], activation: Activation = jax.nn.relu) -> Choices:
    return Choices(log_softmax_each(mlp_apply(params, obs, activation), sizes))


# Critics ------------------------------------------------------------------------------------------------------------


def critics_init(key: jax.Array, count: int, obs_size: int, action_size: int, hidden: Sequence[int]) -> Any:
    """`count` critics of (state, action), kept apart: batching them into one array gains nothing on a CPU.

    They start near zero, as nothing is known of rewards and a cost is never negative.
    """
    sizes = (obs_size + action_size, *hidden, 1)
    return tuple(mlp_init(k, sizes, last_scale=0.01) for k in jax.random.split(key, count))


def critics_apply(params: Any, obs: jax.Array, actions: jax.Array, layer_norm: bool = False) -> jax.Array:
    """Values [count, B, K] of K actions each at B states: obs [B, o], actions [B, K, a].

    Actions are clipped here, the one gate to the critics: an environment clips them too, so beyond the bounds the
    values are flat, and a critic that extrapolates there would teach the policy to widen its noise.
    The state's half of the first layer is multiplied once per state, not once per particle: the same number for less.
    """
    actions = jnp.clip(actions, -1.0, 1.0)
    activation = _standardized_relu if layer_norm else jax.nn.relu

    def one(network: MLP) -> jax.Array:
        (weight, bias), *rest = network
        split = obs.shape[-1]
        first = (obs @ weight[:split] + bias)[:, None, :] + actions @ weight[split:]
        flat = activation(first.reshape(-1, first.shape[-1]))
        return mlp_apply(tuple(rest), flat, activation).reshape(actions.shape[:-1])

    return jnp.stack([one(network) for network in params])


def _standardized_relu(x: jax.Array) -> jax.Array:
    """Layer normalisation without gains and offsets, which the next layer could undo, and the ReLU."""
    x = x - x.mean(-1, keepdims=True)
    return jax.nn.relu(x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5))


def choice_critics_init(key: jax.Array, count: int, obs_size: int, choices: int, hidden: Sequence[int]) -> Any:
    """`count` critics with one output for each discrete action."""
    return tuple(mlp_init(k, (obs_size, *hidden, choices), last_scale=0.01) for k in jax.random.split(key, count))


def choice_critics_apply(params: Any, obs: jax.Array, layer_norm: bool = False) -> jax.Array:
    """Values [count, B, n] of all n choices at B states."""
    activation = _standardized_relu if layer_norm else jax.nn.relu
    return jnp.stack([mlp_apply(network, obs, activation) for network in params])
