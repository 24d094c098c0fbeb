"""The dual of the E-step in natural parameters, and a projected Newton method for it.

B states, K particles, n features f (the reward, then minus the costs), each with mean zero under the prior in every
state. A tilt x >= 0 gives in every state q_x ∝ π exp(x·f), with the log-partition A(x) = mean_b log E_π exp(x·f),
which is convex; its gradient is E_q[f] and its Hessian the mean covariance of f under q. With x = (1, λ)/η the dual of
Theorem 1 is the ratio

    G(x) = (ε + x·b + A(x)) / (a·x),        a = (1, 0, ..., 0),  b = (0, limits).

The smallest reachable worst violation is the same ratio with the reward left out and a = (1, ..., 1). A convex function
over a positive linear one is pseudo-convex: every stationary point is a minimum, and at it the Hessian of G is that of
A over a·x. So the Newton step on A + x·(b − G a) descends on G from anywhere and converges quadratically.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

# The loop stops at this residual: about ten times what rounding leaves of a float32 mean over 512 x 128 entries.
TARGET_RESIDUAL = 2e-6
_STEEPEST = 1e10  # a·x beyond this is the limit of zero temperature: rewards one part in 1e10 apart count as equal.

_GROWTH = 4.0  # of x, at most, in one step


class Problem(NamedTuple):
    """Minimise G over x >= 0; the data are in units in which every feature has variance one under the prior."""

    features: Array  # [n, B, K]
    prior: Array  # [B, K] probabilities
    offsets: Array  # [n] b
    denominator: Array  # [n] a
    usable: Array  # [n] bool; x stays at its start where False
    kl_limit: Array  # [] ε
    floor: Array  # [] no distribution has a smaller objective: a dual value below it proves there is none


class Tilt(NamedTuple):
    """What q ∝ π exp(logits) gives, as means over states."""

    log_ratio: Array  # [B, K] log(q / π)
    mean: Array  # [n] E_q[f] = ∇A
    kl: Array  # [] KL(q || π)
    shortfall: Array  # [] E_q[max logits − logits], zero where q sits on the best particles


class Certificate(NamedTuple):
    """How far (x, q) is from optimal, free of units; the definitions are in docs/estep.md."""

    objective: Array  # [] what q reaches
    dual: Array  # [] G, the bound
    residual: Array  # [] the worst relative violation of a KKT condition
    gap: Array  # [] relative duality gap


class Solution(NamedTuple):
    x: Array  # [n]
    logits: Array  # [B, K]
    residual: Array  # []
    dual: Array  # []
    iterations: Array  # [] evaluations of the dual


def kl_terms(log_ratio: Array) -> Array:
    """φ(u) = u eᵘ − eᵘ + 1, so that KL(q || p) = Σ p φ(log q/p); each term is >= 0 and correct to its last digits.

    The sum of q log(q/p) cancels to nothing when q is close to p: at a KL of 1e-6 float32 would keep two digits.
    """
    u = log_ratio
    small = jnp.where(jnp.abs(u) < 0.5, u, 0.0)
    series = small * (1 / 30 + small * (1 / 144 + small * (1 / 840 + small * (1 / 5760 + small / 45360))))
    near = small * small * (0.5 + small * (1 / 3 + small * (1 / 8 + series)))
    return jnp.where(jnp.abs(u) < 0.5, near, u * jnp.exp(u) - jnp.expm1(u))


def state_means(weights: Array, values: Array) -> Array:
    """Σ_k weights [B, K] values [n, B, K], per state [n, B].

    One feature at a time: with weights broadcast along n, jaxlib 0.10.2 compiles values − means into a fusion that
    subtracts the first feature's means from all features, on CPUs, once n B K passes some 40,000.
    """
    return jnp.stack([jnp.sum(weights * value, axis=-1) for value in values])


def combine(coefficients: Array, features: Array) -> Array:
    """x·f [B, K]; no matrix product, whose inputs GPUs may round to fewer digits."""
    return jnp.sum(coefficients[:, None, None] * features, axis=0)


def log_ratio(logits: Array, prior: Array) -> tuple[Array, Array]:
    """log(q / π) for q ∝ π exp(logits), and logits less their maximum in each state; 0 outside the prior's support."""
    supported = prior > 0
    below = logits - jnp.max(jnp.where(supported, logits, -jnp.inf), axis=-1, keepdims=True)
    below = jnp.where(supported, below, 0.0)
    mass = jnp.sum(prior * jnp.exp(below), axis=-1, keepdims=True)
    return jnp.where(supported, below - jnp.log(mass), 0.0), below


def tilt(logits: Array, prior: Array, features: Array) -> Tilt:
    """Moments of q ∝ π exp(logits) over features [n, B, K] that are centred under the prior."""
    u, below = log_ratio(logits, prior)
    gain = prior * jnp.expm1(u)  # q − π: keeps E_q[f] − E_π[f] accurate when q is close to π
    return Tilt(
        log_ratio=u,
        mean=jnp.mean(state_means(gain, features), axis=-1),
        kl=jnp.mean(jnp.sum(prior * kl_terms(u), axis=-1)),
        shortfall=-jnp.mean(jnp.sum((prior + gain) * below, axis=-1)),
    )


def deviations(at: Tilt, prior: Array, features: Array) -> Array:
    """D [n, B K] with D Dᵀ = ∇²A, the mean over states of the covariance of the features under q."""
    q = prior * jnp.exp(at.log_ratio)
    centred = features - state_means(q, features)[..., None]
    return (jnp.sqrt(q / prior.shape[0]) * centred).reshape(features.shape[0], -1)


def certify(problem: Problem, x: Array, at: Tilt, divergence: Array | float = 0.0) -> Certificate:
    """KKT residual and duality gap of the multipliers x with the distribution `at`.

    `divergence` is KL(q || q_x): zero when the distribution is exactly the tilt by x. The bound at zero temperature,
    where the KL constraint has no price, holds as well; the better of the two certificates counts.
    """
    eta = 1.0 / jnp.dot(problem.denominator, x)
    multipliers = x * eta
    reached = problem.offsets + at.mean
    in_objective = problem.usable & (problem.denominator > 0)
    objective = jnp.where(jnp.any(in_objective), jnp.min(jnp.where(in_objective, reached, jnp.inf)), 0.0)
    slack = jnp.where(problem.usable, reached - objective * problem.denominator, 0.0)
    kl_slack = problem.kl_limit - at.kl

    unit = spread_in_ball(problem.kl_limit)
    primal = jnp.maximum(jnp.max(-slack) / unit, -kl_slack / problem.kl_limit)
    complementarity = multipliers * slack

    def value(temperature: Array | float, stationarity: Array) -> tuple[Array, Array, Array]:
        scale = unit * jnp.sum(multipliers) + temperature * problem.kl_limit
        parts = jnp.stack([jnp.max(jnp.abs(complementarity)), jnp.abs(temperature * kl_slack), stationarity])
        gap = jnp.sum(complementarity) + temperature * kl_slack + stationarity
        return jnp.maximum(jnp.max(parts) / scale, primal), objective + gap, jnp.abs(gap) / scale

    warm = value(eta, eta * divergence)
    cold = value(0.0, eta * at.shortfall)
    residual, dual, gap = (jnp.where(cold[0] < warm[0], c, w) for c, w in zip(cold, warm, strict=True))
    return Certificate(objective=objective, dual=dual, residual=residual, gap=gap)


def spread_in_ball(kl_limit: Array) -> Array:
    """How far an expectation of unit variance moves within the KL ball, to first order: the unit of the residuals."""
    return jnp.minimum(1.0, jnp.sqrt(2.0 * kl_limit))


class _Search(NamedTuple):
    x: Array
    logits: Array
    value: Array  # G(x)
    gradient: Array  # a·x ∇G(x)
    direction: Array
    step: Array
    reach: Array
    residual: Array
    dual: Array
    iterations: Array
    stalled: Array


def minimise(problem: Problem, start: Array, max_iterations: int) -> Solution:
    """Minimise G from `start` [n] by projected Newton steps with an approximate Wolfe line search.

    One pass of the loop evaluates one candidate, and accepts it or shortens the step.
    """

    def unfinished(s: _Search) -> Array:
        open_ = (s.residual > TARGET_RESIDUAL) & ~s.stalled & ~(s.dual < problem.floor)
        return open_ & (s.iterations < max_iterations)

    def advance(s: _Search) -> _Search:
        x = jnp.maximum(s.x + s.step * s.direction, 0.0)
        moved = x - s.x
        # A short step is added to the logits held: at low temperatures x·f is rounded more coarsely than the step. The
        # rounding acts like one part in 1e7 of the features; the step still moves the particles that share the weight.
        short = jnp.all(jnp.abs(moved) <= 0.01 * jnp.max(s.x))
        exact_move = jnp.where(x > 0, s.step * s.direction, -s.x)
        coefficients = jnp.where(short, exact_move, x)
        logits = jnp.where(short, s.logits, 0.0) + combine(coefficients, problem.features)
        at = tilt(logits, problem.prior, problem.features)
        value, gradient = _value_and_gradient(problem, x, at)
        certificate = certify(problem, x, at)

        # Hager and Zhang's test: near the minimum the values agree to rounding and only slopes can tell.
        before, after = jnp.dot(s.gradient, moved), jnp.dot(gradient, moved)
        noise = 1e-6 * (jnp.abs(value) + spread_in_ball(problem.kl_limit))
        decreased = value <= s.value + 1e-4 * before / jnp.dot(problem.denominator, s.x)
        level = (value <= s.value + noise) & (after <= -0.8 * before)
        accepted = decreased | level

        direction, first_step, reach = _direction(problem, x, at, gradient, s.reach)
        shorter = s.step * jnp.clip(before / (before - after), 0.02, 0.5)
        stepped = _Search(
            x=x,
            logits=at.log_ratio,  # near zero where the weight is, so that small steps are not rounded away
            value=value,
            gradient=gradient,
            direction=direction,
            step=first_step,
            reach=reach,
            residual=certificate.residual,
            dual=certificate.dual,
            iterations=s.iterations,
            stalled=jnp.array(False),
        )
        held = s._replace(step=shorter, reach=s.reach * shorter / s.step, stalled=shorter < 1e-6)
        kept = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), stepped, held)
        return kept._replace(iterations=s.iterations + 1)

    dtype = problem.features.dtype
    infinity = jnp.array(jnp.inf, dtype)
    first = _Search(
        x=start,
        logits=combine(start, problem.features),
        value=infinity,  # so that the first pass accepts the start itself
        gradient=jnp.zeros_like(start),
        direction=jnp.zeros_like(start),
        step=jnp.ones((), dtype),
        reach=jnp.array(1e30, dtype),
        residual=infinity,
        dual=infinity,
        iterations=jnp.array(0, jnp.int32),
        stalled=jnp.array(False),
    )
    last = jax.lax.while_loop(unfinished, advance, first)
    return Solution(x=last.x, logits=last.logits, residual=last.residual, dual=last.dual, iterations=last.iterations)


def _value_and_gradient(problem: Problem, x: Array, at: Tilt) -> tuple[Array, Array]:
    """G(x), by A(x) = x·E_q[f] − KL(q || π), and its gradient times a·x, ∇A + b − G a.

    The gradient is summed from differences, in which the large terms that G and E_q[f] share are gone.
    """
    a, reached = problem.denominator, problem.offsets + at.mean
    eta = 1.0 / jnp.dot(a, x)
    value = (problem.kl_limit - at.kl + jnp.dot(x, reached)) * eta
    differences = reached[:, None] * a[None, :] - a[:, None] * reached[None, :]
    gradient = (differences @ x - a * (problem.kl_limit - at.kl)) * eta
    return value, jnp.where(problem.usable, gradient, 0.0)


def _direction(problem: Problem, x: Array, at: Tilt, gradient: Array, reach: Array) -> tuple[Array, Array, Array]:
    """The direction among the variables off their bound, the first step to try along it, and the next reach."""
    root = deviations(at, problem.prior, problem.features)
    hessian = jnp.matmul(root, root.T, precision=jax.lax.Precision.HIGHEST)
    a = problem.denominator
    size = jnp.dot(a, x)

    class Trial(NamedTuple):
        free: Array  # [n] the variables to move
        pinned: Array  # [n] moves of the variables that go to their bound
        direction: Array
        reach: Array
        blocked: Array  # [] whether the direction led others past their bound

    def attempt(trial: Trial) -> Trial:
        slope = gradient + hessian @ trial.pinned
        moves, next_reach = _moves(problem, x, at, slope, root, hessian, trial.free, reach)
        blocked = trial.free & (x + moves < 0) & (a * x <= 0.5 * size)
        return Trial(
            free=trial.free & ~blocked,
            pinned=jnp.where(blocked, -x, trial.pinned),
            direction=trial.pinned + moves,
            reach=next_reach,
            blocked=jnp.any(blocked),
        )

    zero = jnp.zeros_like(x)
    free = problem.usable & ((x > 0) | (gradient < 0))
    last = jax.lax.while_loop(lambda t: t.blocked, attempt, Trial(free, zero, zero, reach, jnp.array(True)))
    change = jnp.dot(a, last.direction)
    step = jnp.minimum(1.0, 0.9 * size / jnp.maximum(-change, 1e-30))
    return last.direction, jnp.where(size + change > _STEEPEST, 0.0, step), last.reach


def _moves(
    problem: Problem, x: Array, at: Tilt, slope: Array, root: Array, hessian: Array, free: Array, reach: Array
) -> tuple[Array, Array]:
    """Newton's step among the free variables, and the next reach.

    It is cut to a radius in each principal direction of the Hessian, so that flat ones (costs that agree, temperatures
    at which q no longer changes) move far, but never drown the others.
    """
    curvature = jnp.where(free[:, None] & free[None, :], hessian, 0.0)
    a = jnp.where(free, problem.denominator, 0.0)
    along = jnp.outer(a, a) / jnp.maximum(jnp.dot(a, a), 1.0)
    across = jnp.diag(free.astype(x.dtype)) - along  # at a fixed temperature
    trace = jnp.trace(hessian) + 1e-30
    excluded = 2.0 * trace * jnp.diag((~free).astype(x.dtype))  # apart from the flat directions, not among them
    matrices = jnp.stack([curvature, across @ curvature @ across + 2.0 * trace * along]) + excluded
    slopes = jnp.stack([jnp.where(free, slope, 0.0), across @ slope])
    _, vectors = jnp.linalg.eigh(matrices)
    # Squares of sums keep the digits of small eigenvalues; those that eigh returns have errors of 1e-7 of the largest.
    movable = jnp.where(free[:, None], vectors, 0.0)
    projected = jnp.einsum("sij,ik->sjk", movable, root, precision=jax.lax.Precision.HIGHEST)
    values = jnp.maximum(jnp.sum(projected**2, axis=-1), 1e-13 * trace)
    lengths = jnp.einsum("sij,si->sj", vectors, slopes) / values
    far = _GROWTH * jnp.sqrt(jnp.dot(x, x))
    radius = jnp.stack([far, jnp.minimum(reach, far)])[:, None]
    newton, settling = -jnp.einsum("sij,sj->si", vectors, jnp.clip(lengths, -radius, radius))

    # Where the KL bound is so slack that x would grow much, the temperature falls in steps, like a homotopy, and only
    # once the limits are met at the present one: Newton's method reaches about as far as a change of one in the logits.
    deficit = problem.kl_limit - at.kl
    distance = jnp.max(jnp.abs(lengths[1]))
    negligible = 0.5 * TARGET_RESIDUAL * spread_in_ball(problem.kl_limit) * jnp.sum(x)
    coldest = jnp.minimum(deficit, at.shortfall) < negligible
    growing = jnp.dot(a, newton) > 0.5 * jnp.dot(problem.denominator, x)
    hold = (deficit > 0) & (coldest | (growing & (distance > 1.0)))
    next_reach = jnp.where(hold, 4.0 * jnp.maximum(jnp.minimum(distance, radius[1, 0]), 1.0), reach)
    return jnp.where(free, jnp.where(hold, across @ settling, newton), 0.0), next_reach
