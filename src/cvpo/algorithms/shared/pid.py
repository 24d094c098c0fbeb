"""Lagrange multipliers as a PID controller (Stooke et al. 2020, "Responsive safety by PID Lagrangian methods").

One controller for each of m constraints. With the integral gain alone it is the plain multiplier: gradient ascent on
the dual with that gain as learning rate.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float


class PIDGains(NamedTuple):
    """Each multiplies the relative excess of a cost, or its increase; all >= 0."""

    kp: float
    ki: float
    kd: float


class PIDState(NamedTuple):
    """A controller's memory, part of the learner's state."""

    integral: Float[Array, " m"]  # the integral part of the multiplier, in [0, maximum]
    smoothed: Float[Array, " m"]  # running mean of the excess; infinite before the first one


def relative_excess(cost: Float[Array, " m"], limit: Float[Array, " m"], margin: float) -> Float[Array, " m"]:
    """How far a cost is above (1 − margin) · limit, as a fraction of the larger of cost and limit: in [margin − 1, 1].

    Free of the unit of costs, also where the limit is 0: then any cost is an excess of 1. An infinite limit gives −1.
    """
    limited = jnp.isfinite(limit)
    limit = jnp.where(limited, limit, 0.0)
    unit = jnp.maximum(cost, limit)
    fraction = (cost - (1 - margin) * limit) / jnp.where(unit > 0, unit, 1.0)
    return jnp.where(limited, fraction, -1.0)


def pid_init(constraints: int) -> PIDState:
    return PIDState(jnp.zeros(constraints), jnp.full(constraints, jnp.inf, float))


def pid_update(
    state: PIDState,
    excess: Float[Array, " m"],
    gains: PIDGains,
    smoothing: float = 0.0,
    maximum: float = math.inf,
) -> tuple[PIDState, Float[Array, " m"]]:
    """The controller after a measured excess, and the multipliers in [0, maximum] (Stooke et al., Algorithm 2).

    The integral never leaves [0, maximum], so that time spent within the limit, or at the maximum, is not held against
    the next change. Only an increase of the cost feeds the derivative: a fall needs no brake. `smoothing` is the weight
    of the past in the running mean that the proportional and derivative parts see. The first cost is no increase.
    """
    first = jnp.isinf(state.smoothed)
    past = jnp.where(first, excess, state.smoothed)
    smoothed = smoothing * past + (1 - smoothing) * excess
    increase = jnp.maximum(smoothed - past, 0.0)
    integral = jnp.clip(state.integral + gains.ki * excess, 0.0, maximum)
    multiplier = gains.kp * smoothed + integral + gains.kd * increase
    return PIDState(integral, smoothed), jnp.clip(multiplier, 0.0, maximum)
