"""The M-step: fit the policy to the E-step's weights within a trust region around the old policy.

All divergences are KL(old || new), as in Eq. 12 of the paper, one for each leading index; B states, K particles,
d components of an action.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

P = TypeVar("P")


def weighted_log_likelihood(log_prob: jax.Array, weights: jax.Array) -> jax.Array:
    """The M-step's objective, mean over states of E_q*[log π]: log_prob and weights are [B, K], weights sum to one."""
    return (weights * log_prob).sum(-1).mean()


def dual_ascent(
    multiplier: jax.Array,
    kl: jax.Array,
    limit: float | jax.Array,
    learning_rate: float | jax.Array,
    maximum: float,
) -> jax.Array:
    """The multiplier β of a KL limit after one gradient step (paper's appendix: β - α (ε - C)), in [0, maximum]."""
    return jnp.clip(multiplier - learning_rate * (limit - kl), 0.0, maximum)


def step_back(
    old_params: P, new_params: P, kl_of: Callable[[P], jax.Array], limit: float | jax.Array, halvings: int = 10
) -> tuple[P, jax.Array]:
    """Halve the step from old to new parameters until all of `kl_of(params) <= limit`; (params, share of step kept).

    Where no halving suffices, or the new parameters are not finite, the old ones are returned and the share is 0.
    """

    def at(share: jax.Array) -> P:
        return jax.tree.map(
            lambda old, new: jnp.where(share > 0, old + share * (new - old), old), old_params, new_params
        )

    def outside(share: jax.Array) -> jax.Array:
        # written so that a divergence of nan counts as outside
        return ~jnp.all(kl_of(at(share)) <= limit)

    smallest = 0.5**halvings
    share = jax.lax.while_loop(
        lambda share: (share > 0) & outside(share),
        lambda share: jnp.where(share > smallest, share / 2, 0.0),
        jnp.ones(()),
    )
    return at(share), share
