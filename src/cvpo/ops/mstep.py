"""The M-step: fit the policy to the E-step's weights within a trust region around the old policy.

All divergences are KL(old || new), as in Eq. 12 of the paper, one for each leading index; B states, K particles,
d components of an action.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

from cvpo.ops.distributions import Categorical, Gaussian, whiten

P = TypeVar("P")


def weighted_log_likelihood(log_prob: jax.Array, weights: jax.Array) -> jax.Array:
    """The M-step's objective, mean over states of E_q*[log π]: log_prob and weights are [B, K], weights sum to one."""
    return (weights * log_prob).sum(-1).mean()


def gaussian_kl(old: Gaussian, new: Gaussian) -> jax.Array:
    """KL(old || new) [...]."""
    return _half_square(new, old) + gaussian_kl_scale(old, new)


def gaussian_kl_mean(old: Gaussian, new: Gaussian) -> jax.Array:
    """C_μ [...]: the divergence if only the mean had moved, so at the old covariance.

    The paper writes the new covariance here but takes it from the target policy; that is what decouples the two parts.
    """
    return _half_square(old, new)


def gaussian_kl_scale(old: Gaussian, new: Gaussian) -> jax.Array:
    """C_Σ [...]: the divergence if only the covariance had moved.

    ½ (tr Σ⁻¹Σ_old - d + ln |Σ| / |Σ_old|), written with E = L⁻¹ L_old - 1 as ½ |E|² + Σ (E_ii - log(1 + E_ii)): trust
    regions near 1e-4 would drown in the rounding of the trace in float32.
    """
    columns = jnp.swapaxes(old.scale_tril - new.scale_tril, -1, -2)
    excess = whiten(new.scale_tril[..., None, :, :], columns)  # E transposed
    growth = jnp.diagonal(excess, axis1=-2, axis2=-1)
    return 0.5 * (excess**2).sum((-2, -1)) + (growth - jnp.log1p(growth)).sum(-1)


def categorical_kl(old: Categorical, new: Categorical) -> jax.Array:
    """KL(old || new) [...]."""
    log_old = old.log_probs
    return (jnp.exp(log_old) * (log_old - new.log_probs)).sum(-1)


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


def _half_square(centre: Gaussian, other: Gaussian) -> jax.Array:
    """½ Δᵀ Σ⁻¹ Δ [...] for the difference of the means and the covariance of `centre`."""
    return 0.5 * (whiten(centre.scale_tril, other.mean - centre.mean) ** 2).sum(-1)
