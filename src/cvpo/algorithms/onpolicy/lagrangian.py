"""Lagrange multipliers of the on-policy methods: the penalised advantage and the controller behind it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from cvpo.algorithms.base import Scalars, Spec
from cvpo.algorithms.config import require_at_least, require_between, require_positive, setting
from cvpo.algorithms.constraint import parse_constraint
from cvpo.algorithms.onpolicy.iteration import Batch
from cvpo.algorithms.onpolicy.policy import PolicyConfig
from cvpo.algorithms.shared import pid
from cvpo.metric_names import per_cost


@dataclass(frozen=True)
class MultiplierConfig(PolicyConfig):
    """Settings of the Lagrange multipliers; a method whose config has none of them ignores the costs."""

    constraint: str = setting("mean", "cost control")
    """What the cost limit applies to. mean: the mean cost of episodes. quantile=0.9: nine of ten episodes cost at most
    the limit. cvar=0.9: the mean cost of the worst tenth."""
    safety_margin: float = setting(0.25, "cost control")
    """How far below the limit to aim, as a fraction of it: the target is (1 - safety_margin) · limit."""
    multiplier_kp: float = setting(0.5, "cost control")
    """Proportional gain. It acts on the error, (cost - target) / max(cost, limit)."""
    multiplier_ki: float = setting(0.1, "cost control")
    """Integral gain. Alone, it is the learning rate of a plain multiplier."""
    multiplier_kd: float = setting(0.1, "cost control")
    """Derivative gain. It acts on increases of the cost only."""
    max_multiplier: float = setting(100.0, "cost control")
    """Upper bound of each multiplier."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, 0, "multiplier_kp", "multiplier_ki", "multiplier_kd")
        require_between(self, 0.0, 1.0, "safety_margin")
        require_positive(self, "max_multiplier")
        parse_constraint(self.constraint)


def constrained(config: PolicyConfig, spec: Spec) -> Spec:
    """`spec` with the constraints that bind the method: none, unless its config has multipliers."""
    return spec if isinstance(config, MultiplierConfig) else dataclasses.replace(spec, cost_limits=())


def penalized_advantage(
    config: PolicyConfig, spec: Spec, controller: pid.PIDState, batch: Batch
) -> tuple[pid.PIDState, jax.Array, Scalars]:
    """(A_r - Σ λᵢ A_cᵢ) / (1 + Σ λᵢ) [B], with the multipliers that the rollout's own episode costs call for.

    The division keeps the policy's step of one size however large the multipliers are (Stooke et al. 2020, Eq. 9).
    """
    if not isinstance(config, MultiplierConfig):
        return controller, batch.advantages[0], {}
    gains = pid.PIDGains(config.multiplier_kp, config.multiplier_ki, config.multiplier_kd)
    excess = pid.relative_excess(batch.episode_costs, jnp.array(spec.cost_limits), config.safety_margin)
    controller, multipliers = pid.pid_update(controller, excess, gains, maximum=config.max_multiplier)
    penalty = multipliers @ batch.advantages[1:]
    penalised = (batch.advantages[0] - penalty) / (1 + multipliers.sum())
    return controller, penalised, per_cost("update/multiplier", multipliers)
