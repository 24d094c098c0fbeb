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
    """Fraction of the cost limit to stay below it: the measured cost is steered to (1 - safety_margin) · limit, because
    single episodes scatter about their mean."""
    cost_signal: Literal["critic", "measured"] = setting("measured", "cost control")
    """What the cost control responds to: the measured cost of recent episodes, or the cost critic's estimate over
    replayed states (the paper)."""
    constraint: str = setting("mean", "cost control")
    """What the cost limit is on: mean, the mean cost of episodes; quantile=0.9, a cost that nine of ten episodes stay
    within; cvar=0.9, the mean cost of the worst tenth."""
    constraint_episodes: int = setting(40, "cost control")
    """Recent episodes of which a quantile or CVaR is taken."""
    cost_smoothing: float = setting(0.5, "cost control")
    """Weight of the newest epoch in the running mean of the measured cost."""
    proportional_gain: float = setting(0.5, "cost control")
    """Cost reduction requested of an E-step, as a fraction of the largest reduction that the KL bound allows, for an
    error of 1. The error is how far the measured cost is above its target, over the larger of cost and limit."""
    integral_gain: float = setting(0.03, "cost control")
    """Added to the requested fraction in each epoch with an error of 1; forgotten again in epochs below the target."""
    max_reduction: float = setting(0.7, "cost control")
    """Largest fraction that is requested of all constraints together. The rest is left for the reward, which would
    never be found otherwise."""
    limit_start: float = setting(1.0, "cost control")
    """Factor on the cost limits at the start; it decays to 1."""
    limit_decay: float = setting(0.9, "cost control")
    """Decay per epoch of that factor's excess over 1."""

    # E-step
    particles: int = setting(16, "policy")
    """Candidate actions per state in the E-step (a Discrete space uses all its choices)."""
    policy_states: int = setting(96, "policy")
    """States of the batch that the E-step and the M-step work on; the critics learn from all."""
    kl_estep: float = setting(0.1, "policy")
    """Bound ε₂ on KL(q ‖ old policy) in the E-step."""
    dual_batches: int = setting(8, "policy")
    """Batches of states that the E-step's dual is solved over, once in as many updates."""
    per_state: bool = setting(False, "policy")
    """Solve one dual problem for each state instead of one for the batch; needs cost_signal critic."""

    # M-step
    mstep_iterations: int = setting(2, "policy")
    """Gradient steps of the policy per update."""
    policy_learning_rate: float = setting(3e-4, "policy")
    """Step size of the policy's optimiser (Adam)."""
    max_gradient_norm: float | None = setting(None, "policy")
    """Clip the policy's gradient to this norm."""
    kl_constraint: bool = setting(True, "policy")
    """Hold the policy in the M-step's trust region; False is the paper's ablation."""
    kl_mean: float = setting(0.015, "policy")
    """Trust region of the policy's mean (of the whole policy if it is categorical)."""
    kl_scale: float = setting(0.001, "policy")
    """Trust region of the policy's covariance."""
    dual_learning_rate: float = setting(0.05, "policy")
    """Step size of the logarithm of the multipliers that hold the policy in its trust region."""
    max_dual: float = setting(30.0, "policy")
    """Upper bound of these multipliers."""
    enforce_trust_region: bool = setting(False, "policy")
    """Step back towards the old policy whenever the M-step leaves its trust region."""
    policy_polyak: float = setting(0.95, "policy")
    """Weight of the old target policy in each averaging step. The trust region is around the target, so this and the
    bounds set the pace of learning."""
    full_covariance: bool = setting(True, "policy")
    """A full covariance matrix; False: a diagonal one."""
    initial_scale: float = setting(0.5, "policy")
    """Standard deviation of the policy at the start; actions span [-1, 1]."""
    min_scale: float = setting(0.05, "policy")
    """Smallest standard deviation of the policy in training. The trust region is in units of the deviation, so this is
    also what keeps the pace of learning from vanishing; it must be below initial_scale."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, 1, "particles", "policy_states", "dual_batches", "mstep_iterations", "limit_start")
        require_at_least(self, 0, "integral_gain")
        require_positive(
            self, "kl_estep", "kl_mean", "kl_scale", "policy_learning_rate", "dual_learning_rate",
            "max_dual", "initial_scale", "min_scale", "max_reduction", "proportional_gain",
        )  # fmt: skip
        require_between(self, 0.0, 1.0, "safety_margin", "cost_smoothing", "limit_decay", "policy_polyak")
        if self.min_scale >= self.initial_scale:
            raise BadValue(f"min_scale must be below initial_scale = {self.initial_scale}, got {self.min_scale}")
        if self.max_gradient_norm is not None:
            require_positive(self, "max_gradient_norm")
        require_constraint(self)
        if self.per_state and self.cost_signal == "measured":
            raise BadValue("per_state needs cost_signal critic: a measured cost is one of the batch, not of a state")
