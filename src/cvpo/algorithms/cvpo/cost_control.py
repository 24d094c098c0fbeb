"""Cost control: what cost is measured, and what reduction of it is requested of the next E-step.

For each of m constraints, once an epoch:

1. measured cost = a running mean of the episodes' cost over a few epochs; once some act without noise, of those with
   noise or of those without it, whichever is higher;
2. error = how far it is above its target, as a fraction of the larger of cost and limit: between -1 and 1;
3. weight w of the cost = proportional_gain · error + integral;
4. the integral changes by integral_gain · error, less of it the larger the error is; it does not grow while the
   request is at its maximum, and far below the target it is forgotten, by a part of itself in proportion to error⁴;
   all this at the pace at which the policy changes, as its updates become fewer and its learning rate falls;
5. requested fraction = w / √(1 + w²), at most max_reduction.

The fraction is one of the largest cost reduction that the E-step's KL bound allows, so that it can be met whatever the
critics' scale is. A step of fixed length that goes w times as far against the cost as along the reward covers
w / √(1 + w²) of its length against the cost: equal shares at w = 1, and the reward keeps a part of every step however
large w is. So a weight may grow for long where the cost does not fall, without stopping the search for reward.
The integral is what removes a steady offset: the cost answers to the request by changing at a rate, and a constant part
of every request is needed to hold the cost against the pull of the reward. Far above the target, as in the first
epochs, the proportional part acts almost alone: that the cost is high there says little of how much is needed later.
That part is weak on purpose: while the policy's noise is wide, a strong request keeps it wide.
With the critic's signal there is no controller: the threshold is the paper's.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, ScalarLike

from cvpo.algorithms.base import Spec, Transition
from cvpo.algorithms.cvpo.config import Config
from cvpo.algorithms.cvpo.estep.max_cost_reduction import max_cost_reduction
from cvpo.algorithms.offpolicy.critics import Units
from cvpo.algorithms.shared import episode_costs
from cvpo.algorithms.shared.optimizers import settling_rate
from cvpo.algorithms.shared.pid import relative_excess
from cvpo.algorithms.shared.returns import threshold_factor

# How much of an error of 1 is kept out of the integral. Not all of it: where the limit is 0, every error is 1.
DAMPING = 0.9
# How much of the integral is forgotten in an epoch at an error of -1 and a pace of 1. Near the target, next to nothing
# is, so that rise and fall are equally fast there, and the scatter of episodes leaves no offset. Not all of it even far
# below: where a slightly faster robot costs ten times as much, the cost is near zero for some epochs although the
# weight is needed.
FORGETTING = 0.5


class CostControl(NamedTuple):
    """The controller's memory, part of the learner's state."""

    costs: episode_costs.EpisodeCosts
    measured_cost: Float[Array, " m"]  # what the limit is on: their mean, or the constraint's statistic
    error: Float[Array, " m"]  # how far it is above its target
    integral: Float[Array, " m"]  # what past errors add to the cost's weight
    epoch: Int[Array, ""]
    updates: Int[Array, ""]  # of the policy since the cost was measured
    all_updates: Int[Array, ""]  # of the policy


class Request(NamedTuple):
    """What the next E-step is asked for."""

    fraction: Float[Array, " m"]  # of the largest reduction; negative: the cost may rise
    threshold: Float[Array, " m"]  # what E_q[Q_c] must stay below, in the unit of the critics; inf: not constrained


def start(config: Config, constraints: int) -> CostControl:
    zeros, none = jnp.zeros(constraints), jnp.zeros((), jnp.int32)
    costs = episode_costs.start(config, constraints)
    return CostControl(costs, zeros, error=zeros, integral=zeros, epoch=none, updates=none, all_updates=none)


def measure(
    config: Config, spec: Spec, control: CostControl, rollout: Transition, noiseless: Bool[Array, " N"]
) -> CostControl:
    """The controller after an epoch's episodes [H, N], some of them without noise."""
    pace = pace_of_policy(config, spec, control)
    costs, measured = episode_costs.observe(config, control.costs, rollout, noiseless, config.cost_smoothing)
    control = control._replace(costs=costs, updates=jnp.zeros_like(control.updates))
    return respond(config, spec, control, measured, pace)


def pace_of_policy(config: Config, spec: Spec, control: CostControl) -> Float[Array, ""]:
    """How fast the policy changes from one measurement to the next, compared with an epoch at its full learning rate.

    Cost answers to updates. After an epoch of more updates than a late one has, the integral must grow faster, or the
    reward outruns it. But more updates do not mean more episodes: in proportion to them, the high cost of the first
    episodes alone would fill it. The root of their ratio is between the two.
    Once the learning rate falls, the cost answers more slowly, and an integral that did not would make it swing.
    """
    updates = jnp.sqrt(control.updates / config.updates_per_epoch(spec.episode_length))
    if config.policy_steady_updates is None:
        return updates
    return updates * settling_rate(1.0, config.policy_steady_updates, control.all_updates)


def updated(control: CostControl) -> CostControl:
    """The controller after one more update of the policy."""
    return control._replace(updates=control.updates + 1, all_updates=control.all_updates + 1)


def respond(
    config: Config, spec: Spec, control: CostControl, measured: Float[Array, " m"], pace: ScalarLike = 1.0
) -> CostControl:
    """The controller's answer to the cost that was measured.

    The integral changes at this pace, see `pace_of_policy`.
    """
    control = control._replace(epoch=control.epoch + 1)
    error = relative_excess(measured, limits_now(config, spec, control), config.safety_margin)
    largest = max_weight(config)
    saturated = together(cost_weight(config, error, control.integral)) >= largest
    counted = error * (1 - DAMPING * jnp.abs(error))
    change = config.integral_gain * jnp.where(saturated, jnp.minimum(counted, 0.0), counted)
    forgotten = FORGETTING * control.integral * jnp.minimum(error, 0.0) ** 4
    integral = jnp.clip(control.integral + pace * (change - forgotten), 0.0, largest)
    return control._replace(measured_cost=measured, error=error, integral=integral)


def limits_now(config: Config, spec: Spec, control: CostControl) -> Float[Array, " m"]:
    """The cost limits in this epoch: wider at first if `limit_start` says so."""
    later = jnp.maximum(control.epoch - 1, 0)  # epochs since the first
    return jnp.array(spec.cost_limits) * (1 + (config.limit_start - 1) * config.limit_decay**later)


def requested_fraction(config: Config, control: CostControl) -> Float[Array, " m"]:
    """What reduction of each cost is requested, as a fraction of the largest.

    Several requests share the KL ball: independent costs lowered by fractions f of their largest reductions take
    √Σf² of it, so that this sum is what max_reduction bounds.
    """
    weight = cost_weight(config, control.error, control.integral)
    total = together(weight)
    shared = part_of_step(jnp.minimum(total, max_weight(config))) * weight / jnp.where(total > 0, total, 1.0)
    return jnp.where(weight > 0, shared, part_of_step(weight))


def cost_weight(config: Config, error: Float[Array, " m"], integral: Float[Array, " m"]) -> Float[Array, " m"]:
    """How much each cost counts against the reward."""
    return config.proportional_gain * error + integral


def together(weight: Float[Array, " m"]) -> Float[Array, ""]:
    """How much the costs that must fall count against the reward, all of them."""
    return jnp.sqrt((jnp.maximum(weight, 0.0) ** 2).sum())


def part_of_step(weight: Float[Array, "*m"]) -> Float[Array, "*m"]:
    """How much of a step's length goes against a cost of this weight."""
    return weight / jnp.sqrt(1 + weight**2)


def max_weight(config: Config) -> float:
    """The weight at which max_reduction is requested: the inverse of `part_of_step`."""
    return config.max_reduction / math.sqrt(1 - config.max_reduction**2)


def request(
    config: Config,
    spec: Spec,
    control: CostControl,
    units: Units,
    q_costs: Float[Array, "m B K"],
    log_prior: Float[Array, "B K"],
) -> Request:
    """The thresholds of the next E-step over candidates with these q_costs, centred if the signal is measured."""
    limits = limits_now(config, spec, control)
    if config.cost_signal == "critic":
        scale = jnp.where(units.scale > 0, units.scale, 1.0)[1:]
        factor = threshold_factor(spec.episode_length, config.cost_discount(spec.episode_length))
        return Request(jnp.zeros_like(limits), (limits * factor - units.level[1:]) / scale)
    largest = jax.vmap(lambda q: max_cost_reduction(q, log_prior, config.kl_estep))(q_costs)
    fraction = requested_fraction(config, control)
    return Request(fraction, jnp.where(jnp.isinf(limits), jnp.inf, -fraction * largest))
