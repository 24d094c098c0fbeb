"""TRPO (Schulman et al. 2015) and TRPO-Lag, which is TRPO on a penalised advantage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import cg

from cvpo.algorithms.base import Algorithm, Key, Scalars, Spec
from cvpo.algorithms.config import require_at_least, require_between, require_positive, setting
from cvpo.algorithms.onpolicy.iteration import Batch, make_algorithm
from cvpo.algorithms.onpolicy.lagrangian import MultiplierConfig, constrained, penalized_advantage
from cvpo.algorithms.onpolicy.policy import PolicyConfig, PolicyParams, StochasticPolicy, make_policy
from cvpo.algorithms.shared import pid, trust_region


@dataclass(frozen=True)
class Config(PolicyConfig):
    """Settings of TRPO."""

    kl_limit: float = setting(0.01, "policy")
    """Trust region: bound on the mean KL(old ‖ new) of an iteration."""
    cg_iterations: int = setting(10, "policy")
    """Iterations of the conjugate gradient method that finds the natural gradient."""
    cg_damping: float = setting(0.1, "policy")
    """Multiple of the identity added to the Fisher matrix."""
    line_search_attempts: int = setting(10, "policy")
    """Step lengths to try before the old policy is kept."""
    line_search_shrink: float = setting(0.8, "policy")
    """Each step length is this fraction of the one before."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "kl_limit")
        require_at_least(self, 1, "cg_iterations", "line_search_attempts")
        require_at_least(self, 0, "cg_damping")
        require_between(self, 0.0, 1.0, "line_search_shrink")


@dataclass(frozen=True)
class LagConfig(Config, MultiplierConfig):
    """Settings of TRPO-Lag."""


class Region(NamedTuple):
    """A policy's improvement for k advantages at once, as a problem in its flat parameters [P]."""

    params: jax.Array  # [P] the old parameters
    unravel: Callable[[jax.Array], PolicyParams]
    evaluate: Callable[[jax.Array], tuple[jax.Array, jax.Array]]  # params -> (surrogates [k], mean KL(old || new))
    gradients: jax.Array  # [k, P] of the surrogates at the old parameters
    natural_gradients: jax.Array  # [k, P] the inverse of the Fisher matrix times them


def make_region(
    config: Config, policy: StochasticPolicy, old: PolicyParams, batch: Batch, advantages: jax.Array
) -> Region:
    """A surrogate is the mean of ratio · advantage for one row of `advantages` [k, B]."""
    params, unravel = ravel_pytree(old)

    def distribution(flat: jax.Array) -> Any:
        return policy.distribution(unravel(flat), batch.obs)

    def surrogates(new: Any) -> jax.Array:
        ratio = jnp.exp(policy.log_prob(new, batch.action) - batch.log_prob)
        return advantages @ ratio / ratio.shape[0]

    def mean_kl(before: Any, after: Any) -> jax.Array:
        return policy.kl(before, after).mean()

    def evaluate(flat: jax.Array) -> tuple[jax.Array, jax.Array]:
        new = distribution(flat)
        return surrogates(new), mean_kl(before, new)

    before = distribution(params)
    gradients = jax.jacrev(lambda flat: surrogates(distribution(flat)))(params)
    fisher = trust_region.fisher_operator(distribution, mean_kl, params, config.cg_damping)
    solve = jax.vmap(lambda gradient: cg(fisher, gradient, tol=1e-6, maxiter=config.cg_iterations)[0])
    return Region(params, unravel, evaluate, gradients, solve(gradients))


def make(config: Config, spec: Spec) -> Algorithm:
    """TRPO, or TRPO-Lag if `config` has multipliers."""
    spec = constrained(config, spec)
    policy = make_policy(config, spec)

    def improve(
        params: PolicyParams, controller: pid.PIDState, batch: Batch, key: Key
    ) -> tuple[PolicyParams, pid.PIDState, Scalars]:
        controller, advantage, info = penalized_advantage(config, spec, controller, batch)
        region = make_region(config, policy, params, batch, advantage[None])
        step = trust_region.natural_step(region.gradients[0], region.natural_gradients[0], config.kl_limit)
        before = advantage.mean()  # the old policy's surrogate: all its ratios are 1

        def acceptable(flat: jax.Array) -> jax.Array:
            (surrogate,), kl = region.evaluate(flat)
            return (kl <= config.kl_limit) & (surrogate > before)

        found, fraction = trust_region.line_search(
            acceptable, region.params, step, config.line_search_shrink, config.line_search_attempts
        )
        (surrogate,), _ = region.evaluate(found)
        info |= {"update/policy_loss": -surrogate, "update/line_search_fraction": fraction}
        return region.unravel(found), controller, info

    return make_algorithm(config, spec, policy, improve, lambda params: pid.pid_init(spec.num_costs))
