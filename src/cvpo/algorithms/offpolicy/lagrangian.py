"""What the off-policy baselines share: the penalised objective and the controllers of its multipliers.

An unconstrained method is the same method for a spec without constraints. Shapes: B states, m constraints.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from cvpo.algorithms.base import Scalars, Spec, Transition
from cvpo.algorithms.config import require_at_least, require_between, require_constraint, require_positive, setting
from cvpo.algorithms.offpolicy.critics import CriticConfig, Critics, CriticState, Units
from cvpo.algorithms.shared import episode_costs, pid
from cvpo.algorithms.shared.returns import threshold_factor
from cvpo.errors import BadValue
from cvpo.metric_names import per_cost


@dataclass(frozen=True)
class MultiplierConfig(CriticConfig):
    """Settings of the Lagrange multipliers; a method whose config has none of them ignores the costs.

    Gains and smoothing are per epoch, and costs are per episode, whichever signal they come from.
    """

    cost_signal: Literal["critic", "measured"] = setting("measured", "cost control")
    """What the multipliers respond to: the measured cost of each epoch's episodes, or the cost critic's estimate at
    every policy step (the paper)."""
    constraint: str = setting("mean", "cost control")
    """What the cost limit applies to. mean: the mean cost of episodes. quantile=0.9: nine of ten episodes cost at most
    the limit. cvar=0.9: the mean cost of the worst tenth."""
    constraint_episodes: int = setting(40, "cost control")
    """Number of recent episodes that a quantile or CVaR is computed from."""
    safety_margin: float = setting(0.25, "cost control")
    """How far below the limit to aim, as a fraction of it: the target is (1 - safety_margin) · limit."""
    multiplier_kp: float = setting(0.15, "cost control")
    """Proportional gain. It acts on the error, (cost - target) / max(cost, limit)."""
    multiplier_ki: float = setting(0.015, "cost control")
    """Integral gain. Alone, it is the learning rate of a plain multiplier."""
    multiplier_kd: float = setting(0.15, "cost control")
    """Derivative gain. It acts on increases of the cost only."""
    multiplier_smoothing: float = setting(0.5, "cost control")
    """Weight of the past in the running mean of the cost that the proportional and derivative parts act on."""
    max_multiplier: float = setting(100.0, "cost control")
    """Upper bound of each multiplier."""
    normalize_loss: bool = setting(True, "cost control")
    """Divide the penalised value by 1 + Σλ, so that large multipliers do not make large steps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, 0, "multiplier_kp", "multiplier_ki", "multiplier_kd")
        require_between(self, 0.0, 1.0, "multiplier_smoothing", "safety_margin")
        require_positive(self, "max_multiplier")
        require_constraint(self)


class PenaltyState(NamedTuple):
    controller: pid.PIDState
    multipliers: jax.Array  # [m]
    costs: episode_costs.EpisodeCosts


class Penalty(NamedTuple):
    """The constraints as a penalty on the reward's value.

    init() -> PenaltyState
    objective(state, q_reward [B], q_costs [m, B]) -> [B]     what the policy maximises
    observe(state, rollout, noiseless [N]) -> PenaltyState    after an epoch's episodes
    observe_critic(state, units, q_costs [m, B]) -> PenaltyState    after a policy step, q_costs of the policy's actions
    info(state) -> Scalars
    """

    init: Callable[[], PenaltyState]
    objective: Callable[[PenaltyState, jax.Array, jax.Array], jax.Array]
    observe: Callable[[PenaltyState, Transition, jax.Array], PenaltyState]
    observe_critic: Callable[[PenaltyState, Units, jax.Array], PenaltyState]
    info: Callable[[PenaltyState], Scalars]


def constrained(config: CriticConfig, spec: Spec) -> Spec:
    """`spec` with the constraints that bind the method: none, unless its config has multipliers."""
    return spec if isinstance(config, MultiplierConfig) else dataclasses.replace(spec, cost_limits=())


def require_continuous(method: str, spec: Spec) -> None:
    if spec.discrete:
        raise BadValue(
            f"{method} needs continuous actions, got a Discrete space of {spec.action_size} choices; "
            "cvpo and ppo-lag learn these"
        )
    if spec.choices:
        raise BadValue(
            f"{method} needs continuous actions, got several choices at once with {list(spec.choices)} options; cvpo, "
            "ppo-lag, trpo-lag and cpo learn these"
        )


def learn_critics(
    critics: Critics,
    spec: Spec,
    state: CriticState,
    steps: Transition,
    expect: Any,
    log_prob: Any,
) -> tuple[CriticState, Scalars]:
    """One step of the critics, and metrics."""
    steps = steps._replace(costs=steps.costs[..., : spec.num_costs])
    state, info = critics.update(state, steps, expect, log_prob)
    if not spec.num_costs:
        del info["critic/cost_loss"]  # the mean over no critics
    return state, info


def make_penalty(config: CriticConfig, spec: Spec, policy_delay: int = 1) -> Penalty:
    """`spec` as `constrained` gives it; `policy_delay`: gradient steps of the critics for each of the policy."""
    settings = config if isinstance(config, MultiplierConfig) else MultiplierConfig()
    limits = jnp.array(spec.cost_limits)
    factor = threshold_factor(spec.episode_length, config.cost_discount(spec.episode_length))
    policy_steps = config.updates_per_epoch(spec.episode_length) / policy_delay
    gains = pid.PIDGains(settings.multiplier_kp, settings.multiplier_ki, settings.multiplier_kd)

    def control(state: PenaltyState, cost: jax.Array, duration: float) -> PenaltyState:
        """The multipliers after `duration` epochs at an episode's cost [m]."""
        scaled = pid.PIDGains(gains.kp, gains.ki * duration, gains.kd / duration)
        smoothing = settings.multiplier_smoothing**duration
        above = pid.relative_excess(cost, limits, settings.safety_margin)
        controlled = pid.pid_update(state.controller, above, scaled, smoothing, settings.max_multiplier)
        return PenaltyState(*controlled, state.costs)

    def objective(state: PenaltyState, q_reward: jax.Array, q_costs: jax.Array) -> jax.Array:
        penalised = q_reward - state.multipliers @ q_costs
        # Stooke et al. 2020, Eq. 9
        return penalised / (1 + state.multipliers.sum()) if settings.normalize_loss else penalised

    def observe(state: PenaltyState, rollout: Transition, noiseless: jax.Array) -> PenaltyState:
        if settings.cost_signal != "measured":
            return state
        rollout = rollout._replace(costs=rollout.costs[..., : spec.num_costs])
        # Weight 1: the proportional and derivative parts have a running mean of their own.
        costs, cost = episode_costs.observe(settings, state.costs, rollout, noiseless, 1.0)
        return control(state._replace(costs=costs), cost, 1.0)

    def observe_critic(state: PenaltyState, units: Units, q_costs: jax.Array) -> PenaltyState:
        if settings.cost_signal != "critic":
            return state
        return control(state, (units.level[1:] + units.scale[1:] * q_costs.mean(-1)) / factor, 1 / policy_steps)

    def info(state: PenaltyState) -> Scalars:
        return per_cost("policy/multiplier", state.multipliers)

    def init() -> PenaltyState:
        costs = episode_costs.start(settings, spec.num_costs)
        return PenaltyState(pid.pid_init(spec.num_costs), jnp.zeros(spec.num_costs), costs)

    return Penalty(init, objective, observe, observe_critic, info)


def value_info(units: Units, q_reward: jax.Array, q_costs: jax.Array) -> Scalars:
    """What the critics say of the policy's actions, q_reward [B] and q_costs [m, B], as metrics in real units."""
    values = units.level + units.scale * jnp.append(q_reward.mean(), q_costs.mean(-1))
    return {"critic/reward_value": values[0]} | per_cost("critic/cost_value", values[1:])
