"""CPO (Achiam et al. 2017): a trust-region step that respects the cost limit by its own linear-quadratic subproblem."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from cvpo.algorithms import onpolicy, trpo
from cvpo.algorithms.onpolicy import Batch, PolicyParams
from cvpo.ops import trust_region
from cvpo.types import Algorithm, Info, Key, Spec

PRESETS = onpolicy.PRESETS


@dataclass(frozen=True)
class Config(trpo.Config):
    """Settings of CPO: those of TRPO."""


def make(config: Config, spec: Spec) -> Algorithm:
    if spec.num_costs != 1:
        raise ValueError(
            f"cpo takes exactly one cost limit, got {spec.num_costs}: {spec.cost_limits}; "
            "ppo-lag and trpo-lag take several"
        )
    policy = onpolicy.make_policy(config, spec)
    limit = spec.cost_limits[0]

    def improve(
        params: PolicyParams, memory: tuple[()], batch: Batch, key: Key
    ) -> tuple[PolicyParams, tuple[()], Info]:
        region = trpo.make_region(config, policy, params, batch)
        advantage, cost_advantage = batch.advantages
        gradient, cost_gradient = region.gradient(advantage), region.gradient(cost_advantage)
        # Surrogates are means over steps, so the excess of an episode is spread over its steps as well.
        excess = (batch.episode_costs[0] - limit) / jnp.maximum(batch.episode_length, 1)
        solution = trust_region.constrained_step(
            gradient,
            region.natural(gradient),
            cost_gradient,
            region.natural(cost_gradient),
            excess,
            config.kl_limit,
        )
        before, cost_before = (region.surrogate(region.params, a) for a in batch.advantages)

        def acceptable(flat: jax.Array) -> jax.Array:
            """Within the trust region; the cost within the room there is, or not higher; and, unless the limit is
            exceeded and the step has to restore it, more reward."""
            cost_change = region.surrogate(flat, cost_advantage) - cost_before
            better = region.surrogate(flat, advantage) > before
            return (
                (region.kl(flat) <= config.kl_limit)
                & (cost_change <= jnp.maximum(-excess, 0.0))
                & (better | (excess > 0))
            )

        found, fraction = trust_region.line_search(
            acceptable, region.params, solution.step, config.line_search_shrink, config.line_search_attempts
        )
        info = {
            "update/policy_loss": -region.surrogate(found, advantage),
            "update/cost_surrogate": region.surrogate(found, cost_advantage),
            "update/line_search_fraction": fraction,
            "update/case": solution.case,
            "update/multiplier": solution.cost_multiplier,
        }
        return region.unravel(found), memory, info

    return onpolicy.make_algorithm(config, spec, policy, improve, lambda params: ())
