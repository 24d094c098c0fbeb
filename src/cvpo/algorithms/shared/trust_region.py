"""Steps inside a trust region: products with the Fisher matrix, the line search, and CPO's constrained step.

Parameters, gradients and steps are flat vectors [P] (see `jax.flatten_util.ravel_pytree`); the Fisher matrix H
[P, P] is never built, only multiplied by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, ScalarLike

Operator = Callable[[Float[Array, " P"]], Float[Array, " P"]]  # v -> H v

# Which of its solutions CPO's subproblem had, as numbers so that a run's log can show them.
RECOVERY, ACTIVE, INACTIVE = 0, 1, 2


def fisher_operator(
    outputs: Callable[[jax.Array], Any],
    divergence: Callable[[Any, Any], jax.Array],
    params: Float[Array, " P"],
    damping: ScalarLike = 0.0,
) -> Operator:
    """v -> (H + damping·I) v, where H is the Hessian of `divergence` between the distributions at `params` and near it.

    outputs(params [P]) gives a batch of distributions as a pytree, divergence(old, new) their mean KL (a scalar), which
    must have its minimum at new = old whatever the outputs do: logits, for instance, not log probabilities.
    There the Hessian of the KL is JᵀFJ, with J the Jacobian of the outputs and F the divergence's own Hessian: the
    network is linearised once, and no product has to run it again.
    """
    old, forward = jax.linearize(outputs, params)
    backward = jax.linear_transpose(forward, params)
    slope = jax.grad(lambda new: divergence(old, new))

    def product(vector: jax.Array) -> jax.Array:
        _, curved = jax.jvp(slope, (old,), (forward(vector),))
        return backward(curved)[0] + damping * vector

    return product


def natural_step(
    gradient: Float[Array, " P"], natural_gradient: Float[Array, " P"], kl_limit: ScalarLike
) -> Float[Array, " P"]:
    """The maximiser [P] of gᵀx subject to ½xᵀHx <= kl_limit, from g and H⁻¹g; zero where the gradient is."""
    return _scale(kl_limit, gradient @ natural_gradient) * natural_gradient


class ConstrainedStep(NamedTuple):
    """Solution of CPO's subproblem, with the multipliers that prove it."""

    step: Float[Array, " P"]
    case: Int[Array, ""]  # RECOVERY, ACTIVE or INACTIVE
    kl_multiplier: Float[Array, ""]  # λ of ½xᵀHx <= kl_limit; 0 in recovery, which has no such dual
    cost_multiplier: Float[Array, ""]  # ν of bᵀx + excess <= 0; 0 in recovery


def constrained_step(
    gradient: Float[Array, " P"],
    natural_gradient: Float[Array, " P"],
    cost_gradient: Float[Array, " P"],
    natural_cost_gradient: Float[Array, " P"],
    excess: Float[Array, ""],
    kl_limit: ScalarLike,
) -> ConstrainedStep:
    """The maximiser of gᵀx subject to bᵀx + excess <= 0 and ½xᵀHx <= kl_limit (Achiam et al. 2017, Eq. 11).

    Takes g, H⁻¹g, b, H⁻¹b, all [P], and by how much the cost exceeds its limit now (negative: room to spare).
    The dual's solution is x = H⁻¹(g - νb)/λ, and the three cases are complete:
      INACTIVE  the step without the cost constraint satisfies it: ν = 0.
      ACTIVE    else both bounds hold with equality, which gives λ and ν in closed form.
      RECOVERY  no step in the trust region satisfies the constraint: take the one that lowers the cost most.
    """
    q = gradient @ natural_gradient
    r = cost_gradient @ natural_gradient
    s = cost_gradient @ natural_cost_gradient
    safe_s = jnp.maximum(s, jnp.finfo(s.dtype).tiny)

    free_step = natural_step(gradient, natural_gradient, kl_limit)
    satisfied = cost_gradient @ free_step + excess <= 0
    reachable = (excess <= 0) | (excess**2 <= 2 * kl_limit * s)

    # With the constraint held, x = -(excess/s)·H⁻¹b plus a step along the part of H⁻¹g that leaves the cost alone.
    # `spare` is the trust region left for that part and `gain` its squared length.
    along = natural_gradient - r / safe_s * natural_cost_gradient
    # As a product of differences: q - r²/s would lose its digits where the two gradients are nearly parallel.
    gain = jnp.maximum((gradient - r / safe_s * cost_gradient) @ along, 0.0)
    spare = jnp.maximum(2 * kl_limit - excess**2 / safe_s, 0.0)
    length = jnp.where(gain > 0, jnp.sqrt(spare / jnp.where(gain > 0, gain, 1.0)), 0.0)
    held_step = length * along - excess / safe_s * natural_cost_gradient
    held_kl_multiplier = jnp.sqrt(gain / jnp.maximum(spare, jnp.finfo(s.dtype).tiny))
    held_cost_multiplier = (r + held_kl_multiplier * excess) / safe_s

    case = jnp.where(satisfied, INACTIVE, jnp.where(reachable, ACTIVE, RECOVERY))

    def choose(recovery: jax.Array, active: jax.Array, inactive: jax.Array) -> jax.Array:
        return jnp.where(case == RECOVERY, recovery, jnp.where(case == ACTIVE, active, inactive))

    zero = jnp.zeros_like(q)
    return ConstrainedStep(
        step=choose(-_scale(kl_limit, s) * natural_cost_gradient, held_step, free_step),
        case=case,
        kl_multiplier=choose(zero, held_kl_multiplier, jnp.sqrt(jnp.maximum(q, 0.0) / (2 * kl_limit))),
        cost_multiplier=choose(zero, held_cost_multiplier, zero),
    )


def line_search(
    acceptable: Callable[[Float[Array, " P"]], Bool[Array, ""]],
    params: Float[Array, " P"],
    step: Float[Array, " P"],
    shrink: ScalarLike,
    attempts: int,
) -> tuple[Float[Array, " P"], Float[Array, ""]]:
    """The first of params + shrinkⁱ·step, i = 0, 1, ..., that is acceptable, and its fraction shrinkⁱ.

    acceptable(params [P]) -> bool must be false for what is not a number, as comparisons are.
    If none of `attempts` is acceptable, `params` themselves come back, bit for bit, with fraction 0.
    """

    def unfinished(carry: tuple) -> jax.Array:
        i, _, _, accepted = carry
        return (i < attempts) & ~accepted

    def attempt(carry: tuple) -> tuple:
        i, _, _, _ = carry
        fraction = shrink ** i.astype(params.dtype)
        candidate = params + fraction * step
        return i + 1, candidate, fraction, acceptable(candidate)

    start = (jnp.zeros((), jnp.int32), params, jnp.ones((), params.dtype), jnp.zeros((), bool))
    _, found, fraction, accepted = jax.lax.while_loop(unfinished, attempt, start)
    return jnp.where(accepted, found, params), jnp.where(accepted, fraction, 0.0)


def _scale(kl_limit: ScalarLike, squared_length: Float[Array, ""]) -> Float[Array, ""]:
    """What stretches H⁻¹v to the edge of the trust region, from vᵀH⁻¹v; 0 where that is zero or rounded below it."""
    positive = squared_length > 0
    return jnp.where(positive, jnp.sqrt(2 * kl_limit / jnp.where(positive, squared_length, 1.0)), 0.0)
