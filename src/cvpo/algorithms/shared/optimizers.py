"""Optimisers whose steps become shorter, so that a policy comes to rest."""

from __future__ import annotations

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, ScalarLike


def settling_adam(rate: float, steady_steps: float | None) -> optax.GradientTransformation:
    """Adam with `settling_rate`; None: at one rate for ever."""
    if steady_steps is None:
        return optax.adam(rate)
    return optax.adam(lambda taken: settling_rate(rate, steady_steps, taken))


def settling_rate(rate: float, steady_steps: float, taken: ScalarLike) -> Float[Array, ""]:
    """The learning rate after so many steps: the same for `steady_steps`, then in proportion to 1 / steps.

    A rate of 1 / steps gives every gradient the same weight in what was learned in the end, and so averages their noise
    out. It needs no knowledge of how long a run will be.
    """
    return rate * steady_steps / jnp.maximum(jnp.asarray(taken, jnp.float32), steady_steps)
