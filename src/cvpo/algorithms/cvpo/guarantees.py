"""What the trust regions promise: the paper's propositions as functions of the KL thresholds. Plain numbers, no arrays.

All promises presume that the policy before the M-steps met its limits, and that the thresholds hold at every state.
"""

from __future__ import annotations

import math

from cvpo.algorithms.base import Spec
from cvpo.algorithms.cvpo.config import Config
from cvpo.errors import BadValue


def decoupled_kl(kl_mean: float, kl_scale: float) -> float:
    """Largest KL(old || new) of a Gaussian whose decoupled parts stay within their two thresholds.

    The mean's part is taken at the old covariance. An eigenvalue of Σ⁻¹Σ_old can grow to -W₋₁(-e^(-1-2 kl_scale)), and
    the mean's part with it, so the sum of the thresholds is slightly too small.
    """
    _require_non_negative(kl_mean=kl_mean, kl_scale=kl_scale)
    if math.isinf(kl_mean) or math.isinf(kl_scale):
        return math.inf
    return kl_scale - kl_mean * lambert_w(kl_scale)[1]


def one_step_robust(kl_mstep: float, kl_estep: float) -> bool:
    """Proposition 3: after any one M-step within `kl_mstep`, the next E-step has a feasible solution."""
    return kl_mstep < kl_estep


def two_step_kl(kl: float) -> float:
    """Bound on KL(π_i || π_{i+2}) of Gaussian policies after two M-steps within `kl` each.

    The relaxed triangle inequality of the paper's appendix (Zhang et al. 2021, Theorem 4). It tends to 8 kl as kl -> 0
    but exceeds 8 kl for every kl > 0, so that the paper's condition ε < ε₂/8 suffices only in that limit.
    """
    _require_non_negative(kl=kl)
    if math.isinf(kl):
        return math.inf
    upper, lower = lambert_w(kl)
    means = (math.sqrt(2 * kl / -upper) + math.sqrt(2 * kl)) ** 2
    return 2 * kl + 0.5 * ((lower + 1) ** 2 - lower * means)


def two_step_robust(kl_mstep: float, kl_estep: float) -> bool:
    """After any two M-steps of a Gaussian policy within `kl_mstep` each, the next E-step has a feasible solution."""
    return kl_estep > 0 and two_step_kl(kl_mstep) <= kl_estep


def describe(config: Config, spec: Spec) -> str:
    """One line for the start of a run: why its E-steps have a solution, or why they may have none."""
    if config.cost_signal == "measured":
        request = f"cost control requests at most {config.max_reduction:.0%} of the cost reduction"
        allowed = f"that a KL of {config.kl_estep:g} allows"
        if spec.num_costs == 1:
            return f"{request} {allowed}, so every E-step has a solution"
        return f"{request} {allowed}, over all costs together; an E-step may still fail if costs conflict"
    if not config.kl_constraint:
        return "M-step without a trust region: none of the paper's guarantees applies"
    line = describe_trust_regions(
        config.kl_mean, config.kl_scale, config.kl_estep, gaussian=not (spec.discrete or spec.choices)
    )
    if config.enforce_trust_region:
        return line
    return f"{line}; multipliers hold the KL at its bound only on average, see mstep/outside"


def describe_trust_regions(kl_mean: float, kl_scale: float, kl_estep: float, *, gaussian: bool) -> str:
    """One line that says which guarantee the thresholds give.

    A categorical policy has one M-step threshold, `kl_mean`, and no two-step guarantee.
    """
    kl_mstep = decoupled_kl(kl_mean, kl_scale) if gaussian else kl_mean
    thresholds = f"M-step KL {kl_mstep:.3g}, E-step KL {kl_estep:.3g}"
    if gaussian and two_step_robust(kl_mstep, kl_estep):
        return (
            f"{thresholds}: the E-step stays feasible after any two such M-steps"
            f" (they move the policy by at most {two_step_kl(kl_mstep):.3g})"
        )
    if one_step_robust(kl_mstep, kl_estep):
        return f"{thresholds}: the E-step stays feasible after any one such M-step"
    return f"{thresholds}: no guarantee that the E-step stays feasible; it needs a smaller M-step or a larger E-step KL"


def lambert_w(kl: float) -> tuple[float, float]:
    """W₀ and W₋₁ of Lambert's function at -exp(-1 - 2 kl).

    With W = -e^v the equation is e^v - 1 - v = 2 kl: solved in this form because the argument itself rounds to the
    branch point -1/e for small kl. Newton's method on a convex function, started beyond each root, falls onto it.
    """
    target = 2 * kl
    beyond = math.sqrt(2 * target) + target
    return -math.exp(_root(-beyond, target)), -math.exp(_root(math.log1p(beyond), target))


def _root(start: float, target: float) -> float:
    """The root of e^v - 1 - v = target nearest to `start`, which must lie on the far side of it from 0."""
    v = start
    while v != 0:
        closer = v - (math.expm1(v) - v - target) / math.expm1(v)
        # a step that no longer goes towards 0 is rounding: the root is reached
        if abs(closer) >= abs(v):
            break
        v = closer
    return v


def _require_non_negative(**values: float) -> None:
    for name, value in values.items():
        if not value >= 0:
            raise BadValue(f"{name} must be >= 0, got {value}")
