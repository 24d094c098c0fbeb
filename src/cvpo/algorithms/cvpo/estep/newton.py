"""A projected Newton method for the dual of the E-step, from any start and to the last digits of float32.

Each pass of the loop evaluates one candidate. `dual` explains why Newton's step on the log-partition descends on
the dual; what is added here keeps it useful where the Hessian is singular (costs that agree), where variables meet
their bound, and where the KL bound is slack, so that the solution lies at zero temperature and may be a vertex.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from cvpo.algorithms.cvpo.estep.dual import (
    Problem,
    Tilt,
    ball_radius,
    certify,
    combine,
    deviations,
    tilt,
    value_and_gradient,
)

# The loop stops at this residual: about ten times what rounding leaves of a float32 mean over 512 x 128 entries.
TARGET_RESIDUAL = 2e-6
_STEEPEST = 1e10  # largest a·x: rewards one part in 1e10 apart count as equal
_GROWTH = 4.0  # largest change in one step, in units of x


class Solution(NamedTuple):
    """Where the search ended."""

    x: Array  # [n]
    at: Tilt  # the distribution there, the tilt by x but for rounding
    residual: Array  # [] of the KKT conditions
    dual: Array  # [] G(x)
    iterations: Array  # [] evaluations of the dual


class _Search(NamedTuple):
    """The last accepted point, and the step to try from it."""

    x: Array  # [n]
    at: Tilt
    value: Array  # [] G(x)
    gradient: Array  # [n] a·x ∇G(x)
    direction: Array  # [n]
    step: Array  # [] length along the direction
    radius: Array  # [] how far to trust a step at a fixed temperature
    residual: Array  # []
    dual: Array  # [] the better bound of G(x) and G at zero temperature
    iterations: Array  # []
    stalled: Array  # [] bool


def minimise(problem: Problem, start: Float[Array, " n"], max_iterations: int) -> Solution:
    """Minimise G from `start` [n] by projected Newton steps with an approximate Wolfe line search.

    One pass of the loop evaluates one candidate, and accepts it or shortens the step.
    """

    def unfinished(s: _Search) -> Array:
        open_ = (s.residual > TARGET_RESIDUAL) & ~s.stalled & ~(s.dual < problem.floor)
        return open_ & (s.iterations < max_iterations)

    def advance(s: _Search) -> _Search:
        x = jnp.maximum(s.x + s.step * s.direction, 0.0)
        moved = x - s.x
        # A short step is added to the logits held, near zero where the weight is: at low temperatures x·f is rounded
        # more coarsely than the step. The rounding acts like one part in 1e7 of the features; the step still moves the
        # particles that share the weight.
        short = jnp.all(jnp.abs(moved) <= 0.01 * jnp.max(s.x))
        exact_move = jnp.where(x > 0, s.step * s.direction, -s.x)
        coefficients = jnp.where(short, exact_move, x)
        logits = jnp.where(short, s.at.log_ratio, 0.0) + combine(coefficients, problem.features)
        at = tilt(logits, problem.prior, problem.features)
        value, gradient = value_and_gradient(problem, x, at)
        certificate = certify(problem, x, at)

        # Hager and Zhang's test: near the minimum the values agree to rounding and only slopes can tell.
        before, after = jnp.dot(s.gradient, moved), jnp.dot(gradient, moved)
        noise = 1e-6 * (jnp.abs(value) + ball_radius(problem.kl_limit))
        decreased = value <= s.value + 1e-4 * before / jnp.dot(problem.denominator, s.x)
        level = (value <= s.value + noise) & (after <= -0.8 * before)
        accepted = decreased | level

        direction, first_step, radius = jax.lax.cond(
            accepted & (certificate.residual > TARGET_RESIDUAL),
            lambda: _direction(problem, x, at, gradient, s.radius),
            lambda: (s.direction, s.step, s.radius),
        )
        shorter = s.step * jnp.clip(before / (before - after), 0.2, 0.5)
        stepped = _Search(
            x=x,
            at=at,
            value=value,
            gradient=gradient,
            direction=direction,
            step=first_step,
            radius=radius,
            residual=certificate.residual,
            dual=certificate.dual,
            iterations=s.iterations,
            stalled=jnp.array(False),
        )
        held = s._replace(step=shorter, radius=s.radius * shorter / s.step, stalled=shorter < 1e-6)
        kept = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), stepped, held)
        return kept._replace(iterations=s.iterations + 1)

    dtype = problem.features.dtype
    infinity, nought = jnp.array(jnp.inf, dtype), jnp.zeros((), dtype)
    first = _Search(
        x=start,
        at=Tilt(combine(start, problem.features), problem.prior, jnp.zeros_like(start), nought, nought),
        value=infinity,  # so that the first pass accepts the start itself
        gradient=jnp.zeros_like(start),
        direction=jnp.zeros_like(start),
        step=jnp.ones((), dtype),
        radius=jnp.array(1e30, dtype),
        residual=infinity,
        dual=infinity,
        iterations=jnp.array(0, jnp.int32),
        stalled=jnp.array(False),
    )
    last = jax.lax.while_loop(unfinished, advance, first)
    return Solution(x=last.x, at=last.at, residual=last.residual, dual=last.dual, iterations=last.iterations)


class _Trial(NamedTuple):
    """A direction in the making: a variable that meets its bound stays there, and the others go on without it."""

    direction: Array  # [n]
    free: Array  # [n] bool, the variables that may still move
    radius: Array  # []
    blocked: Array  # [] bool, whether a variable has met its bound


def _direction(
    problem: Problem, x: Float[Array, " n"], at: Tilt, gradient: Float[Array, " n"], radius: Float[Array, ""]
) -> tuple[Array, Array, Array]:
    """The direction, the first step to try along it, and the next radius.

    Each part goes towards the least value of the quadratic model over the free variables, as far as the first bound:
    the model falls along all of them, which it need not if several variables were sent to their bounds at once.
    """
    root = deviations(at, problem.features)
    hessian = jnp.matmul(root, root.T, precision=jax.lax.Precision.HIGHEST)
    a = problem.denominator
    size = jnp.dot(a, x)

    def attempt(trial: _Trial) -> _Trial:
        # By the root, as far moves along flat directions cancel there, before they are rounded.
        slope = gradient + root @ (trial.direction @ root)
        moves, next_radius = _moves(problem, x, at, slope, root, hessian, trial.free, radius)
        left = x + trial.direction
        meets = trial.free & (left + moves < 0) & (a * x <= 0.5 * size)
        shares = jnp.where(meets, left / jnp.where(meets, -moves, 1.0), 1.0)
        share = jnp.min(shares)
        stops = meets & (shares <= share)
        direction = jnp.where(stops, -x, trial.direction + share * moves)
        return _Trial(direction, trial.free & ~stops, next_radius, jnp.any(stops))

    zero = jnp.zeros_like(x)
    free = problem.usable & ((x > 0) | (gradient < 0))
    last = jax.lax.while_loop(lambda t: t.blocked, attempt, _Trial(zero, free, radius, jnp.array(True)))
    change = jnp.dot(a, last.direction)
    step = jnp.minimum(1.0, 0.9 * size / jnp.maximum(-change, 1e-30))
    return last.direction, jnp.where(size + change > _STEEPEST, 0.0, step), last.radius


def _moves(
    problem: Problem,
    x: Float[Array, " n"],
    at: Tilt,
    slope: Float[Array, " n"],
    root: Float[Array, "n BK"],
    hessian: Float[Array, "n n"],
    free: Bool[Array, " n"],
    radius: Float[Array, ""],
) -> tuple[Array, Array]:
    """Newton's step among the free variables, and the next radius.

    It is cut to a radius in each principal direction of the Hessian, so that flat ones (costs that agree, temperatures
    at which q no longer changes) move far, but never drown the others.
    """
    curvature = jnp.where(free[:, None] & free[None, :], hessian, 0.0)
    a = jnp.where(free, problem.denominator, 0.0)
    along = jnp.outer(a, a) / jnp.maximum(jnp.dot(a, a), 1.0)
    across = jnp.diag(free.astype(x.dtype)) - along  # at a fixed temperature
    trace = jnp.trace(hessian) + 1e-20
    excluded = 2.0 * trace * jnp.diag((~free).astype(x.dtype))  # apart from the flat directions, not among them
    matrices = jnp.stack([curvature, across @ curvature @ across + 2.0 * trace * along]) + excluded
    slopes = jnp.stack([jnp.where(free, slope, 0.0), across @ slope])
    _, vectors = jnp.linalg.eigh(matrices)
    # Squares of sums keep the digits of small eigenvalues; those that eigh returns have errors of 1e-7 of the largest.
    movable = jnp.where(free[:, None], vectors, 0.0)
    projected = jnp.einsum("sij,ik->sjk", movable, root, precision=jax.lax.Precision.HIGHEST)
    values = jnp.maximum(jnp.sum(projected**2, axis=-1), 1e-13 * trace + 1e-30)
    lengths = jnp.einsum("sij,si->sj", vectors, slopes) / values
    far = _GROWTH * jnp.sqrt(jnp.dot(x, x))
    longest = jnp.stack([far, jnp.minimum(radius, far)])[:, None]
    newton, settling = -jnp.einsum("sij,sj->si", vectors, jnp.clip(lengths, -longest, longest))

    # Where the KL bound is so slack that x would grow much, the temperature falls in steps, like a homotopy, and only
    # once the limits are met at the present one: Newton's method reaches about as far as a change of one in the logits.
    deficit = problem.kl_limit - at.kl
    distance = jnp.max(jnp.abs(lengths[1]))
    negligible = 0.5 * TARGET_RESIDUAL * ball_radius(problem.kl_limit) * jnp.sum(x)
    coldest = jnp.minimum(deficit, at.shortfall) < negligible
    growing = jnp.dot(a, newton) > 0.5 * jnp.dot(problem.denominator, x)
    hold = (deficit > 0) & (coldest | (growing & (distance > 1.0)))
    next_radius = jnp.where(hold, 4.0 * jnp.maximum(jnp.minimum(distance, longest[1, 0]), 1.0), radius)
    # Where q is so cold that Newton's step along x would pass zero, x shrinks.
    frozen = -deficit > jnp.sum((x @ root) ** 2)
    moves = jnp.where(hold, across @ settling, jnp.where(frozen, -0.9 * x, newton))
    return jnp.where(free, moves, 0.0), next_radius
