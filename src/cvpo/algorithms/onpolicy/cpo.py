"""CPO (Achiam et al. 2017): a trust-region step that respects the cost limit by its own linear-quadratic subproblem."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from cvpo.algorithms.base import Algorithm, Key, Scalars, Spec
from cvpo.algorithms.config import require_between, setting
from cvpo.algorithms.onpolicy import trpo
from cvpo.algorithms.onpolicy.iteration import Batch, make_algorithm
from cvpo.algorithms.onpolicy.policy import PolicyParams, make_policy
from cvpo.algorithms.shared import trust_region
from cvpo.errors import BadValue


@dataclass(frozen=True)
class Config(trpo.Config):
    """Settings of CPO: those of TRPO, and the margin."""

    safety_margin: float = setting(0.25, "cost control")
    """How far below the limit to aim, as a fraction of it: the target is (1 - safety_margin) · limit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between(self, 0.0, 1.0, "safety_margin")


def make(config: Config, spec: Spec) -> Algorithm:
    if spec.num_costs != 1:
        raise BadValue(
            f"cpo takes exactly one cost limit, got {spec.num_costs}: {spec.cost_limits}; "
            "ppo-lag and trpo-lag take several"
        )
    policy = make_policy(config, spec)
    target = (1 - config.safety_margin) * spec.cost_limits[0]

    def improve(
        params: PolicyParams, memory: tuple[()], batch: Batch, key: Key
    ) -> tuple[PolicyParams, tuple[()], Scalars]:
        region = trpo.make_region(config, policy, params, batch, batch.advantages)
        (gradient, cost_gradient), (natural, cost_natural) = region.gradients, region.natural_gradients
        # Surrogates are means over steps, so the excess of an episode is spread over its steps as well.
        excess = (batch.episode_costs[0] - target) / jnp.maximum(batch.episode_length, 1) / batch.cost_scales[0]
        solution = trust_region.constrained_step(
            gradient, natural, cost_gradient, cost_natural, excess, config.kl_limit
        )
        before, cost_before = batch.advantages.mean(1)  # the old policy's surrogates: all its ratios are 1

        def acceptable(flat: jax.Array) -> jax.Array:
            """Within the trust region; the cost within the room there is, or not higher; and, unless the limit is
            exceeded and the step has to restore it, more reward."""
            (surrogate, cost_surrogate), kl = region.evaluate(flat)
            affordable = cost_surrogate - cost_before <= jnp.maximum(-excess, 0.0)
            return (kl <= config.kl_limit) & affordable & ((surrogate > before) | (excess > 0))

        found, fraction = trust_region.line_search(
            acceptable, region.params, solution.step, config.line_search_shrink, config.line_search_attempts
        )
        (surrogate, cost_surrogate), _ = region.evaluate(found)
        info = {
            "update/policy_loss": -surrogate,
            "update/cost_surrogate": cost_surrogate * batch.cost_scales[0],
            "update/line_search_fraction": fraction,
            "update/case": solution.case,
            "update/multiplier": solution.cost_multiplier,
        }
        return region.unravel(found), memory, info

    return make_algorithm(config, spec, policy, improve, lambda params: ())
