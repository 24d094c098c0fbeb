"""The settings of CVPO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cvpo.algorithms.config import require_at_least, require_between, require_constraint, require_positive, setting
from cvpo.algorithms.offpolicy.critics import CriticConfig
from cvpo.errors import BadValue


@dataclass(frozen=True)
class Config(CriticConfig):
    """Settings of CVPO."""

    # Cost control: what the E-step is asked for.
    safety_margin: float = setting(0.25, "cost control")
    """How far below the limit to aim, as a fraction of it: the target is (1 - safety_margin) · limit. Single episodes
    scatter around their mean, so some cost more than the target. Not used with cost_signal critic."""
    cost_signal: Literal["critic", "measured"] = setting("measured", "cost control")
    """What the cost control responds to: the measured cost of recent episodes, or the cost critic's estimate over
    replayed states (the paper)."""
    constraint: str = setting("mean", "cost control")
    """What the cost limit applies to. mean: the mean cost of episodes. quantile=0.9: nine of ten episodes cost at most
    the limit. cvar=0.9: the mean cost of the worst tenth."""
    constraint_episodes: int = setting(40, "cost control")
    """Number of recent episodes that a quantile or CVaR is computed from."""
    cost_smoothing: float = setting(0.5, "cost control")
    """Weight of the newest epoch in the running mean of the measured cost."""
    proportional_gain: float = setting(0.4, "cost control")
    """Weight w of the cost for an error of 1. The error is (measured cost - target) / max(measured cost, limit). The
    E-step is asked for w / √(1 + w²) of the largest cost reduction that its KL bound allows."""
    integral_gain: float = setting(0.08, "cost control")
    """How fast the weight grows: an epoch adds integral_gain · error · (1 - 0.9 |error|), more if it has more updates
    than a late one, and less once the policy's learning rate falls. Below the target the weight falls."""
    max_reduction: float = setting(0.9, "cost control")
    """Largest fraction that is requested, of all constraints together; below 1, so that the reward keeps a part of
    every step."""
    limit_start: float = setting(1.0, "cost control")
    """Start with limits that are this many times as wide."""
    limit_decay: float = setting(0.9, "cost control")
    """How much of that extra width remains from one epoch to the next."""

    # E-step
    particles: int = setting(8, "policy")
    """Candidate actions per state in the E-step, in pairs on either side of the policy's mean. (For discrete actions
    all choices are candidates.)"""
    kl_estep: float = setting(0.1, "policy")
    """Bound ε₂ on KL(q ‖ old policy) in the E-step."""
    dual_batches: int = setting(8, "policy")
    """How many batches the E-step's dual problem is solved over, once in as many updates. Fewer where an epoch has few
    updates."""
    per_state: bool = setting(False, "policy")
    """Solve one dual problem for each state instead of one for all. Needs cost_signal critic."""

    # M-step
    mstep_iterations: int = setting(2, "policy")
    """Gradient steps of the policy in each update."""
    policy_learning_rate: float = setting(3e-4, "policy")
    """Learning rate of the policy (Adam)."""
    max_gradient_norm: float | None = setting(None, "policy")
    """Clip the policy's gradient to this norm. Default: not clipped."""
    kl_constraint: bool = setting(True, "policy")
    """Keep the policy inside the M-step's trust region; False is the paper's ablation."""
    kl_mean: float = setting(0.002, "policy")
    """Trust region of the policy's mean (for discrete actions: of the whole policy), as a KL."""
    kl_scale: float = setting(0.0002, "policy")
    """Trust region of the policy's covariance, as a KL."""
    dual_learning_rate: float = setting(0.05, "policy")
    """Learning rate of the multipliers that keep the policy inside its trust region; it acts on their logarithm."""
    max_dual: float = setting(30.0, "policy")
    """Upper bound of these multipliers."""
    max_dual_scale: float | None = setting(None, "policy")
    """Upper bound of the one that holds the covariance, if it is another."""
    enforce_trust_region: bool = setting(False, "policy")
    """Step back towards the old policy whenever the M-step leaves its trust region."""
    policy_polyak: float = setting(0.965, "policy")
    """Weight of the old policy in each averaging step. The trust region is around this average, so it sets the pace of
    learning together with the KL bounds."""
    full_covariance: bool = setting(True, "policy")
    """Use a full covariance matrix; False: a diagonal one."""
    initial_scale: float = setting(0.5, "policy")
    """Standard deviation of the policy at the start; actions span [-1, 1]."""
    min_scale: float = setting(0.05, "policy")
    """Smallest standard deviation of the policy during training, below initial_scale. The trust region is measured in
    these deviations, so this also keeps learning from slowing to a halt."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, 1, "particles", "dual_batches", "mstep_iterations", "limit_start")
        require_at_least(self, 0, "integral_gain")
        require_positive(
            self, "kl_estep", "kl_mean", "kl_scale", "policy_learning_rate", "dual_learning_rate",
            "max_dual", "initial_scale", "min_scale", "max_reduction", "proportional_gain",
        )  # fmt: skip
        require_between(self, 0.0, 1.0, "safety_margin", "cost_smoothing", "limit_decay", "policy_polyak")
        if self.max_reduction >= 1:
            raise BadValue(f"max_reduction must be below 1, got {self.max_reduction}: no more is possible")
        if self.min_scale >= self.initial_scale:
            raise BadValue(f"min_scale must be below initial_scale = {self.initial_scale}, got {self.min_scale}")
        for name in ("max_gradient_norm", "max_dual_scale"):
            if getattr(self, name) is not None:
                require_positive(self, name)
        require_constraint(self)
        if self.per_state and self.cost_signal == "measured":
            raise BadValue("per_state needs cost_signal critic: a measured cost is one of the batch, not of a state")
