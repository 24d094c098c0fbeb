"""Lagrange multipliers as a PID controller (Stooke et al. 2020, "Responsive safety by PID Lagrangian methods").

One controller for each of m constraints. With the integral gain alone it is the plain multiplier: gradient ascent on
the dual with that gain as learning rate.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp


class PIDGains(NamedTuple):
    """Each multiplies a cost in excess of its limit, or its increase; all >= 0."""

    kp: float
    ki: float
    kd: float


class PIDState(NamedTuple):
    """A controller's memory, part of the learner's state."""

    integral: jax.Array  # [m] the integral part of the multiplier, in [0, maximum]
    smoothed: jax.Array  # [m] running mean of the cost; infinite before the first one


def pid_init(constraints: int) -> PIDState:
    return PIDState(jnp.zeros(constraints), jnp.full(constraints, jnp.inf, float))


def pid_update(
    state: PIDState,
    cost: jax.Array,
    limit: jax.Array,
    gains: PIDGains,
    smoothing: float = 0.0,
    maximum: float = math.inf,
) -> tuple[PIDState, jax.Array]:
    """The controller after a measured cost [m], and the multipliers [m] in [0, maximum] (Algorithm 2 of Stooke et al.).

    The integral never leaves [0, maximum], so that time spent within the limit, or at the maximum, is not held against
    the next change. Only an increase of the cost feeds the derivative: a fall needs no brake. `smoothing` is the weight
    of the past in the running mean that the proportional and derivative parts see. The first cost is no increase.
    A constraint with an infinite limit has multiplier 0.
    """
    limited = jnp.isfinite(limit)
    finite_limit = jnp.where(limited, limit, 0.0)
    first = jnp.isinf(state.smoothed)
    past = jnp.where(first, cost, state.smoothed)
    smoothed = smoothing * past + (1 - smoothing) * cost
    increase = jnp.maximum(smoothed - past, 0.0)
    integral = jnp.clip(state.integral + gains.ki * (cost - finite_limit), 0.0, maximum)
    multiplier = gains.kp * (smoothed - finite_limit) + integral + gains.kd * increase
    return (
        PIDState(jnp.where(limited, integral, 0.0), smoothed),
        jnp.where(limited, jnp.clip(multiplier, 0.0, maximum), 0.0),
    )
