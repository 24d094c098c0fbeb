"""The M-step: fit the policy to the E-step's weights within a trust region around the old policy.

    max_θ  mean_b E_q*[log π_θ]   s.t.   mean_b KL(π_old || π_θ) <= ε      (one ε for each part of the policy)

Dual ascent on the multipliers β of the trust region alternates with gradient steps of the policy, as in the paper's
appendix; `step_back` enforces the trust region exactly. B states, K candidates, c trust-region terms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, ScalarLike

from cvpo.algorithms.base import Key, Params
from cvpo.algorithms.cvpo.config import Config
from cvpo.algorithms.cvpo.estep.candidates import Candidates
from cvpo.algorithms.cvpo.heads import Head
from cvpo.algorithms.shared.optimizers import settling_adam

P = TypeVar("P")

# Small against the likelihood's own curvature, which is 1 in the units of the KL.
MIN_DUAL = 0.1


class PolicyState(NamedTuple):
    """What the M-step improves and carries from one update to the next."""

    actor: Params
    optimizer: optax.OptState
    duals: jax.Array  # [c] β, multipliers of the trust region


class MStep(NamedTuple):
    """The improved policy, and how it was reached."""

    policy: PolicyState
    likelihood: jax.Array  # [] weighted log likelihood in the last iteration
    kls: jax.Array  # [c] from the old policy to the new one
    outside: jax.Array  # [c] bool: whether they are above their bounds
    step_fraction: jax.Array  # [] of the step that `enforce_trust_region` left; 1: all of it


class Terms(NamedTuple):
    """The parts of the M-step's Lagrangian."""

    likelihood: jax.Array  # []
    kls: jax.Array  # [c]
    duals: jax.Array  # [c] after their ascent


def init_policy(config: Config, head: Head, key: Key) -> PolicyState:
    actor = head.init(key)
    return PolicyState(actor, make_optimizer(config).init(actor), jnp.ones(len(head.kl_names)))


def make_optimizer(config: Config) -> optax.GradientTransformation:
    adam = settling_adam(config.policy_learning_rate, config.policy_steady_steps(config.mstep_iterations))
    if config.max_gradient_norm is None:
        return adam
    return optax.chain(optax.clip_by_global_norm(config.max_gradient_norm), adam)


def kl_bounds(config: Config, head: Head) -> Float[Array, " c"]:
    return jnp.array([config.kl_mean, config.kl_scale])[: len(head.kl_names)]


def max_duals(config: Config, head: Head) -> Float[Array, " c"]:
    of_scale = config.max_dual if config.max_dual_scale is None else config.max_dual_scale
    return jnp.array([config.max_dual, of_scale])[: len(head.kl_names)]


def fit_policy(
    config: Config,
    head: Head,
    policy: PolicyState,
    old_actor: Params,
    candidates: Candidates,
    weights: Float[Array, "B K"],
) -> MStep:
    """The whole M-step: `mstep_iterations` steps towards the E-step's weights, inside the trust region."""
    optimizer, bounds = make_optimizer(config), kl_bounds(config, head)

    def iterate(policy: PolicyState, _: None) -> tuple[PolicyState, jax.Array]:
        gradient_of = jax.value_and_grad(lagrangian, argnums=4, has_aux=True)
        (_, terms), gradient = gradient_of(config, head, candidates, weights, policy.actor, policy.duals)
        step, opt_state = optimizer.update(gradient, policy.optimizer)
        return PolicyState(optax.apply_updates(policy.actor, step), opt_state, terms.duals), terms.likelihood

    policy, likelihoods = jax.lax.scan(iterate, policy, length=config.mstep_iterations)

    def kls_of(actor: Params) -> jax.Array:
        return head.kls(candidates.old, head.distribution(actor, candidates.obs))

    step_fraction = jnp.ones(())
    if config.enforce_trust_region:
        actor, step_fraction = step_back(old_actor, policy.actor, lambda params: (kls_of(params) / bounds).max(), 1.0)
        policy = policy._replace(actor=actor)
    kls = kls_of(policy.actor)
    return MStep(policy, likelihoods[-1], kls, kls > bounds, step_fraction)


def lagrangian(
    config: Config,
    head: Head,
    candidates: Candidates,
    weights: Float[Array, "B K"],
    actor: Params,
    duals: Float[Array, " c"],
) -> tuple[Float[Array, ""], Terms]:
    """What a gradient step lowers: β·(KL - ε) - likelihood, with the multipliers that the KLs call for."""
    new = head.distribution(actor, candidates.obs)
    # A Gaussian has two parts, each fitted with the other held.
    log_probs = head.log_probs(candidates.old, new, candidates.actions)
    likelihood = sum((weighted_log_likelihood(part, weights) for part in log_probs), start=jnp.zeros(()))
    kls, bounds = head.kls(candidates.old, new), kl_bounds(config, head)
    if config.kl_constraint:
        maximum = max_duals(config, head)
        duals = dual_ascent(duals, jax.lax.stop_gradient(kls), bounds, config.dual_learning_rate, maximum)
    else:
        duals = jnp.zeros(len(head.kl_names))
    return duals @ (kls - bounds) - likelihood, Terms(likelihood, kls, duals)


def weighted_log_likelihood(log_prob: Float[Array, "B K"], weights: Float[Array, "B K"]) -> Float[Array, ""]:
    """The M-step's objective, mean over states of E_q*[log π]; a state's weights sum to one."""
    return (weights * log_prob).sum(-1).mean()


def dual_ascent(
    multiplier: Float[Array, "*c"],
    kl: Float[Array, "*c"],
    limit: ScalarLike | Float[Array, "*c"],
    learning_rate: ScalarLike,
    maximum: ScalarLike | Float[Array, "*c"],
) -> Float[Array, "*c"]:
    """The multiplier β of a KL limit after one step of its ascent, in [MIN_DUAL, maximum].

    The paper's step β - α (ε - C) is taken in the logarithm of β and in units of ε. It then has one pace for limits of
    any size, and comes back from a spike of the KL within tens of steps; meanwhile the policy hardly moves.
    """
    excess = jnp.clip(kl / limit - 1, -1.0, 1.0)
    return jnp.clip(multiplier * jnp.exp(learning_rate * excess), MIN_DUAL, maximum)


def step_back(
    old_params: P, new_params: P, kl_of: Callable[[P], jax.Array], limit: ScalarLike | jax.Array, halvings: int = 10
) -> tuple[P, jax.Array]:
    """Halve the step from old to new parameters until all of `kl_of(params) <= limit`; (params, fraction of the step).

    Where no halving suffices, or the new parameters are not finite, the old ones are returned and the fraction is 0.
    """

    def at(fraction: jax.Array) -> P:
        def between(old: Any, new: Any) -> jax.Array:
            return jnp.where(fraction > 0, old + fraction * (new - old), old)

        return jax.tree.map(between, old_params, new_params)

    def outside(fraction: jax.Array) -> jax.Array:
        # written so that a divergence of nan counts as outside
        return ~jnp.all(kl_of(at(fraction)) <= limit)

    smallest = 0.5**halvings
    fraction = jax.lax.while_loop(
        lambda fraction: (fraction > 0) & outside(fraction),
        lambda fraction: jnp.where(fraction > smallest, fraction / 2, 0.0),
        jnp.ones(()),
    )
    return at(fraction), fraction
