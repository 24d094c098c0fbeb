"""Cost control: what cost is measured, and what reduction of it is requested of the next E-step.

A PI controller for each of m constraints. Its error is how far the measured cost of recent episodes is above its
target, in units of the limit. Its output is a fraction of the largest cost reduction that the E-step's KL bound allows,
so that the request can be met whatever the critics' scale is. With the critic's signal there is no controller: the
threshold is the paper's.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from cvpo.algorithms.base import Spec, Transition, first_episode_means
from cvpo.algorithms.cvpo.config import Config
from cvpo.algorithms.cvpo.estep.candidates import Candidates
from cvpo.algorithms.cvpo.estep.max_cost_reduction import max_cost_reduction
from cvpo.algorithms.shared.returns import threshold_factor


class CostControl(NamedTuple):
    """The controller's memory, part of the learner's state."""

    measured_cost: jax.Array  # [m] running mean of the cost per episode, NaN before the first
    integral: jax.Array  # [m] what past errors add to the requested fraction
    epoch: jax.Array  # []


class Request(NamedTuple):
    """What the next E-step is asked for."""

    fraction: jax.Array  # [m] of the largest reduction; negative: the cost may rise
    threshold: jax.Array  # [m] what E_q[Q_c] must stay below; inf: not constrained


def start(constraints: int) -> CostControl:
    return CostControl(
        measured_cost=jnp.full(constraints, jnp.nan, jnp.float32),
        integral=jnp.zeros(constraints),
        epoch=jnp.zeros((), jnp.int32),
    )


def measure(config: Config, spec: Spec, control: CostControl, rollout: Transition) -> CostControl:
    """The controller after an epoch's episodes [H, N]: their cost enters the running mean and the integral.

    An E-step's solution meets part of any request by drawing closer to the best of the noise, which the policy does
    only slowly. The integral of the error learns how much more must be requested. It is held where the maximum is
    reached without it: what summed up in careless epochs would make the policy too careful for long.
    """
    cost = first_episode_means(rollout, rollout.costs)
    smoothed = control.measured_cost + config.cost_smoothing * (cost - control.measured_cost)
    measured = jnp.where(jnp.isnan(control.measured_cost), cost, smoothed)
    control = control._replace(measured_cost=measured, epoch=control.epoch + 1)
    error = error_in_limits(config, spec, control)
    room = config.max_reduction - jnp.clip(config.proportional_gain * error, 0.0, config.max_reduction)
    integral = control.integral + config.integral_gain * jnp.clip(error, -1.0, 1.0)
    return control._replace(integral=jnp.clip(integral, 0.0, room))


def limits_now(config: Config, spec: Spec, control: CostControl) -> jax.Array:
    """The cost limits [m] in this epoch: wider at first if `limit_start` says so."""
    return jnp.array(spec.cost_limits) * (1 + (config.limit_start - 1) * config.limit_decay**control.epoch)


def error_in_limits(config: Config, spec: Spec, control: CostControl) -> jax.Array:
    """How far the measured cost is above its target [m], in units of the limit; 0 before the first episode."""
    final = jnp.array(spec.cost_limits)
    unit = jnp.where(final > 0, final, 1.0)
    target = (1 - config.safety_margin) * limits_now(config, spec, control)
    return jnp.nan_to_num((control.measured_cost - target) / unit)


def request(config: Config, spec: Spec, control: CostControl, candidates: Candidates) -> Request:
    """The thresholds of the next E-step over these candidates."""
    limits = limits_now(config, spec, control)
    if config.cost_signal == "critic":
        return Request(jnp.zeros_like(limits), limits * threshold_factor(spec.episode_length, config.gamma))
    largest = jax.vmap(lambda q: max_cost_reduction(q, candidates.log_prior, config.kl_estep))(candidates.q_costs)
    wanted = config.proportional_gain * error_in_limits(config, spec, control) + control.integral
    fraction = jnp.clip(wanted, -config.max_reduction, config.max_reduction)
    reduction = jnp.where(jnp.isinf(limits), -jnp.inf, fraction * largest)
    return Request(fraction, candidates.policy_costs - reduction)
