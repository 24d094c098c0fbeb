"""The largest reduction of an expected cost that a KL ball allows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, ScalarLike

from cvpo.algorithms.cvpo.estep.dual import Tilt, tilt

# The temperature is sought within this factor, as a power of e, of what it is for normal values.
RANGE = 4.0
HALVINGS = 11


def max_cost_reduction(
    values: Float[Array, "B K"], log_prior: Float[Array, "B K"], kl_limit: ScalarLike
) -> Float[Array, ""]:
    """max_q mean_b (E_π[v] - E_q[v]) subject to mean_b KL(q || π) <= kl_limit, to about one percent from below.

    There are K particles at each of B states. The best q is π·exp(-v / τ); τ is found by
    bisection, as the divergence falls in τ. For normal values the answer is √(2·kl_limit) deviations; where a few
    actions are much worse than the rest it is far less, as avoiding these is all that can be done.
    """
    prior = jnp.exp(log_prior)
    centred = values - (values * prior).sum(-1, keepdims=True)
    deviation = jnp.sqrt((centred**2 * prior).sum(-1).mean())
    scaled = centred / jnp.where(deviation > 0, deviation, 1.0)

    def tilted(inverse: jax.Array) -> Tilt:
        return tilt(-inverse * scaled, prior, scaled[None])

    def halve(_: jax.Array, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        inside, outside = ends
        middle = (inside + outside) / 2
        within = tilted(jnp.exp(middle)).kl <= kl_limit
        return jnp.where(within, middle, inside), jnp.where(within, outside, middle)

    normal = jnp.log(jnp.sqrt(2 * jnp.asarray(kl_limit)))
    inside, _ = jax.lax.fori_loop(0, HALVINGS, halve, (normal - RANGE, normal + RANGE))
    return -tilted(jnp.exp(inside)).mean[0] * deviation
