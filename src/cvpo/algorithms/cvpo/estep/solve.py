"""The constrained E-step (Theorem 1 of the paper): the best re-weighting of particles within a KL ball and cost limits.

    max_q  mean_b E_q[Q_r]   s.t.   mean_b E_q[Q_c,i] <= limit_i,   mean_b KL(q || π) <= ε

B states, K particles each, m costs. `dual` has the dual and `newton` solves it; here are the units, the
degenerate cases, and the answer when no distribution meets the limits. docs/estep.md has the definitions.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from cvpo.algorithms.cvpo.estep import dual
from cvpo.algorithms.cvpo.estep.newton import Solution, minimise
from cvpo.errors import BadValue

# A residual above this is not a solution; a violation below it, in units of the KL ball, is not a violation.
TOLERANCE = 1e-5
# A limit that is met with room to spare and has a multiplier below this, in the same units, does not bind.
IDLE = 1e-3

# The attempts at a solution, in this order: from the given start, from a start that suits any problem, and the
# distribution that comes closest to the limits.
WARM, COLD, SAFEST, DONE = 0, 1, 2, 3

T = TypeVar("T")


# What a caller may pass for an array. NumPy's own ArrayLike cannot be checked when a program runs.
ArrayLike = Array | np.ndarray | np.generic | float | Sequence[Any]


class EStep(NamedTuple):
    """The solution and its certificate; with `per_state` every field has a leading axis B (weights stay [B, K])."""

    eta: Array  # [] temperature; 0 where the reward does not matter
    multipliers: Array  # [m] λ
    weights: Array  # [B, K] q*, each row sums to one
    feasible: Array  # [] bool; False: no distribution in the KL ball meets the limits, weights come closest
    finite: Array  # [] bool; False: the inputs were not finite, weights are the prior
    kkt_residual: Array  # [] worst relative violation of a KKT condition
    duality_gap: Array  # [] relative
    kl: Array  # [] mean KL(q* || π)
    reward: Array  # [] mean E_q*[Q_r]
    costs: Array  # [m] mean E_q*[Q_c]
    iterations: Array  # [] int32, evaluations of the dual
    tilt: Array  # [1 + m] weights ∝ π exp(tilt · (Q_r, −Q_c)): (1, λ) / η, or (0, λ) where no limit can be met


def solve_estep(
    q_reward: ArrayLike,
    q_costs: ArrayLike,
    cost_limits: ArrayLike,
    kl_limit: ArrayLike,
    log_prior: ArrayLike | None = None,
    per_state: bool = False,
    warm_start: tuple[ArrayLike, ArrayLike] | None = None,
    max_iterations: int = 100,
) -> EStep:
    """Solve the E-step for q_reward [B, K] and q_costs [m, B, K] (or [B, K] for one cost).

    Args:
        cost_limits: one number for all costs or [m]; +inf lifts a limit.
        kl_limit: bound ε > 0 on the mean over states of KL(q || π).
        log_prior: [B, K] log-probabilities of the particles, up to a constant per state; uniform by default. −inf
            excludes a particle, whose Q values then do not matter.
        per_state: one problem per state, with the limits applied to each, instead of one over the batch.
        warm_start: (eta, multipliers) of a similar problem; anything not positive and finite means a cold start.
        max_iterations: bound on the evaluations of the dual, in each of the two phases.
    """
    reward, costs, limits, epsilon = (_array(v) for v in (q_reward, q_costs, cost_limits, kl_limit))
    m = costs.shape[0] if costs.ndim == 3 else 1
    if reward.ndim != 2 or costs.shape not in (reward.shape, (m, *reward.shape)) or 0 in costs.shape:
        raise BadValue(
            "q_reward must be [B, K] and q_costs [m, B, K] or [B, K] with the same B and K, none of them zero; "
            f"got {reward.shape} and {costs.shape}"
        )
    if limits.shape not in ((), (m,)):
        raise BadValue(f"cost_limits must be one number or [{m}], got shape {limits.shape}")
    if isinstance(kl_limit, int | float | np.number) and not kl_limit > 0:
        raise BadValue(f"kl_limit must be positive, got {kl_limit}")
    prior_logits = np.zeros(reward.shape, np.float32) if log_prior is None else _array(log_prior)
    if prior_logits.shape != reward.shape:
        raise BadValue(f"log_prior must have q_reward's shape {reward.shape}, got {prior_logits.shape}")
    if warm_start is None:
        lead = reward.shape[:1] if per_state else ()
        warm_start = (np.zeros(lead, np.float32), np.zeros((*lead, m), np.float32))
    return _solve(reward, costs, limits, epsilon, prior_logits, warm_start, per_state, max_iterations)


def _array(value: ArrayLike) -> Array | np.ndarray:
    """An array without a type of its own choosing: `_solve` converts, as every operation outside of it takes time."""
    return value if isinstance(value, Array) else np.asarray(value)


@partial(jax.jit, static_argnames=("per_state", "max_iterations"))
def _solve(
    reward: Array,
    costs: Array,
    limits: Array,
    kl_limit: Array,
    prior_logits: Array,
    warm_start: tuple[Array, Array],
    per_state: bool,
    max_iterations: int,
) -> EStep:
    dtype = jnp.promote_types(reward.dtype, jnp.float32)
    arrays = (reward, costs, limits, kl_limit, prior_logits, warm_start)
    reward, costs, limits, kl_limit, prior_logits, warm_start = jax.tree.map(lambda v: v.astype(dtype), arrays)
    costs = jnp.reshape(costs, (-1, *reward.shape))
    limits = jnp.broadcast_to(limits, costs.shape[:1])
    solve = partial(_solve_batch, max_iterations=max_iterations)
    if not per_state:
        return solve(reward, costs, limits, kl_limit, prior_logits, warm_start)
    each = jax.vmap(solve, in_axes=(0, 1, None, None, 0, 0))
    result = each(reward[:, None], costs[:, :, None], limits, kl_limit, prior_logits[:, None], warm_start)
    return result._replace(weights=result.weights[:, 0])


def _solve_batch(
    reward: Float[Array, "B K"],
    costs: Float[Array, "m B K"],
    limits: Float[Array, " m"],
    kl_limit: Float[Array, ""],
    prior_logits: Float[Array, "B K"],
    warm_start: tuple[Float[Array, ""], Float[Array, " m"]],
    max_iterations: int,
) -> EStep:
    prior = _probabilities(prior_logits)
    proper = jnp.all(jnp.isfinite(prior))
    prior = jnp.where(proper, prior, 1.0 / prior.shape[-1])
    supported = prior > 0
    finite = proper & jnp.isfinite(kl_limit) & (kl_limit > 0)
    finite &= jnp.all(~jnp.isnan(limits) & (limits > -jnp.inf))
    finite &= jnp.all(jnp.isfinite(reward) | ~supported) & jnp.all(jnp.isfinite(costs) | ~supported)
    kl_limit = jnp.where(finite, kl_limit, 1.0)

    values = jnp.where(finite & supported, jnp.concatenate([reward[None], costs]), 0.0)
    centred, mean, rest = _centre(values, prior)
    levels = jnp.mean(mean + rest, axis=-1)
    deviation = _deviation(centred, prior)
    finite &= jnp.all(jnp.isfinite(deviation))
    unit = jnp.where(finite & (deviation > 0), deviation, 1.0)
    sign = jnp.ones_like(unit).at[1:].set(-1.0)
    features = jnp.where(finite, centred * (sign / unit)[:, None, None], 0.0)

    limited = finite & (limits < jnp.inf)
    room = _room(jnp.where(limited, limits, 0.0), mean[1:], rest[1:]) / unit[1:]
    room = jnp.where(limited, room, 0.0)
    adjustable = limited & (deviation[1:] > 0) & (room < jnp.inf)
    rounding = TOLERANCE * dual.ball_radius(kl_limit)
    # A cost that is the same for all particles cannot be changed: it decides the flag and nothing else.
    hopeless = jnp.any(limited & (deviation[1:] == 0) & (room < 0))

    # Rooms relative to the worst keep the digits of large violations.
    worst = jnp.min(jnp.where(adjustable, room, jnp.inf))
    zero, one = jnp.zeros(1, room.dtype), jnp.ones(1, room.dtype)
    best = dual.Problem(
        features=features,
        prior=prior,
        offsets=jnp.concatenate([zero, jnp.where(adjustable, room, 0.0)]),
        denominator=jnp.concatenate([one, jnp.zeros_like(room)]),
        usable=jnp.concatenate([deviation[:1] > 0, adjustable]),
        kl_limit=kl_limit,
        floor=jnp.mean(jnp.min(jnp.where(supported, features[0], jnp.inf), axis=-1)),
    )
    safest = best._replace(
        offsets=jnp.concatenate([zero, jnp.where(adjustable, room - worst, 0.0)]),
        denominator=jnp.concatenate([zero, adjustable.astype(room.dtype)]),
        usable=jnp.concatenate([jnp.zeros(1, bool), adjustable]),
        floor=jnp.array(-jnp.inf, room.dtype),
    )

    warm, cold = _start(best, unit, warm_start), _start(best, unit, (jnp.zeros_like(kl_limit), jnp.zeros_like(room)))

    def solve(attempt: Array, found: Solution, violated: Array) -> tuple[Array, Solution, Array]:
        last = attempt == SAFEST
        problem = _choose(last, safest, best)
        start = jnp.where(last, safest.denominator * jnp.sqrt(2.0 * kl_limit), jnp.where(attempt == WARM, warm, cold))
        solution = minimise(problem, start, max_iterations)
        iterations = found.iterations + solution.iterations
        # Only the last problem decides: its dual bounds the smallest worst violation from below.
        violated = last & (solution.dual + worst < -rounding)
        # A start may be so far off that the search stalls: then once more from the start that needs no luck.
        solved = solution.residual <= TOLERANCE
        misled = (attempt == WARM) & jnp.any(warm != cold)
        after = jnp.where(solved | last, DONE, jnp.where(misled, COLD, jnp.where(jnp.any(adjustable), SAFEST, DONE)))
        solution = _choose(last & ~violated, found, solution)
        return after, solution._replace(iterations=iterations), violated

    infinity = jnp.array(jnp.inf, room.dtype)
    nothing = Solution(
        x=jnp.zeros_like(unit),
        at=dual.Tilt(jnp.zeros_like(prior), prior, jnp.zeros_like(unit), kl=infinity, shortfall=infinity),
        residual=infinity,
        dual=infinity,
        iterations=jnp.array(0, jnp.int32),
    )
    # One loop for all attempts, so that the solver is compiled once.
    _, solution, violated = jax.lax.while_loop(
        lambda state: state[0] != DONE,
        lambda state: solve(*state),
        (jnp.array(WARM, jnp.int32), nothing, jnp.array(False)),
    )
    problem = _choose(violated, safest, best)

    # The search ends before a multiplier that should vanish is exactly zero. Zero it is, if that is a solution too.
    slack = limited & (room + solution.at.mean[1:] > IDLE * dual.ball_radius(kl_limit))
    idle = slack & (solution.x[1:] < IDLE * jnp.sum(solution.x))
    without = jnp.where(jnp.concatenate([jnp.zeros(1, bool), idle]), 0.0, solution.x)
    at_without = dual.tilt(dual.combine(without, problem.features), prior, problem.features)
    vanishes = jnp.any(idle) & (dual.certify(problem, without, at_without).residual <= TOLERANCE)
    x, at = jnp.where(vanishes, without, solution.x), _choose(vanishes, at_without, solution.at)

    fresh, _ = dual.log_ratio(dual.combine(x, problem.features), prior)
    divergence = jnp.mean(jnp.sum(prior * jnp.exp(fresh) * dual.kl_terms(at.log_ratio - fresh), axis=-1))
    certificate = dual.certify(problem, x, at, divergence)
    weights = prior * jnp.exp(at.log_ratio)
    eta = unit[0] / jnp.dot(problem.denominator, x)
    multipliers = x[1:] * eta / unit[1:]
    informative = deviation[0] > 0
    return EStep(
        eta=jnp.where(finite, jnp.where(informative | violated, eta, 0.0), 0.0),
        multipliers=jnp.where(finite & (informative | violated), multipliers, 0.0),
        weights=jnp.where(finite, weights / jnp.sum(weights, axis=-1, keepdims=True), prior),
        feasible=finite & ~violated & ~hopeless,
        finite=finite,
        kkt_residual=jnp.where(finite, certificate.residual, jnp.inf),
        duality_gap=jnp.where(finite, certificate.gap, jnp.inf),
        kl=jnp.where(finite, at.kl, 0.0),
        reward=levels[0] + unit[0] * at.mean[0],
        costs=levels[1:] - unit[1:] * at.mean[1:],
        iterations=solution.iterations,
        tilt=jnp.where(finite & (deviation > 0), x / unit, 0.0),
    )


def tilted_weights(
    tilt: Float[Array, " n"],
    q_reward: Float[Array, "B K"],
    q_costs: Float[Array, "m B K"],
    log_prior: Float[Array, "B K"],
) -> Float[Array, "B K"]:
    """q ∝ π exp(tilt · (Q_r, −Q_c)), with n = 1 + m: a dual's solution at states that it was not solved over."""
    return jax.nn.softmax(log_prior + tilt[0] * q_reward - jnp.tensordot(tilt[1:], q_costs, 1), axis=-1)


def _choose(condition: Bool[Array, ""], yes: T, no: T) -> T:
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(condition, a, b), yes, no)


def _start(
    problem: dual.Problem, unit: Float[Array, " n"], warm_start: tuple[Float[Array, ""], Float[Array, " m"]]
) -> Float[Array, " n"]:
    """The tilt (n = 1 + m) to start from: the given one, or the optimum for a Gaussian reward and no limits."""
    eta, multipliers = warm_start
    given = jnp.concatenate([unit[:1], multipliers * unit[1:]]) / jnp.where(eta > 0, eta, 1.0)
    usable_start = (eta > 0) & jnp.all(jnp.isfinite(given) & (given >= 0)) & (given[0] > 0)
    cold = problem.denominator * jnp.sqrt(2.0 * problem.kl_limit)
    x = jnp.where(problem.usable, jnp.where(usable_start, given, cold), 0.0)
    # A constant reward leaves only the limits: at (almost) no temperature the closest distribution that meets them.
    return x.at[0].set(jnp.where(problem.usable[0], x[0], 1e8))


def _probabilities(logits: Float[Array, "B K"]) -> Float[Array, "B K"]:
    """softmax to the last digits: at a logit of −16 the rounding of differences alone is one part in 1e6."""
    below, error = _two_sum(logits, -jnp.max(logits, axis=-1, keepdims=True))
    mass = jnp.exp(below) * (1.0 + jnp.where(below > -jnp.inf, error, 0.0))
    return mass / jnp.sum(mass, axis=-1, keepdims=True)


def _centre(
    values: Float[Array, "n B K"], prior: Float[Array, "B K"]
) -> tuple[Float[Array, "n B K"], Float[Array, "n B"], Float[Array, "n B"]]:
    """Values less their prior mean in each state, and that mean in two parts, large and small.

    A difference is exact but for its own last digit, so a common shift costs no digits beyond those the inputs lack.
    """
    supported = prior > 0
    highest = jnp.max(jnp.where(supported, values, -jnp.inf), axis=-1)
    mean = highest + dual.state_means(prior, jnp.where(supported, values - highest[..., None], 0.0))
    centred = jnp.where(supported, values - mean[..., None], 0.0)
    rest = dual.state_means(prior, centred)
    return jnp.where(supported, centred - rest[..., None], 0.0), mean, rest


def _deviation(centred: Float[Array, "n B K"], prior: Float[Array, "B K"]) -> Float[Array, " n"]:
    """Standard deviation over particles within states; scaled first, as squares leave float32's range early."""
    largest = jnp.max(jnp.abs(centred), axis=(1, 2))
    scaled = centred / jnp.where(largest > 0, largest, 1.0)[:, None, None]
    return largest * jnp.sqrt(jnp.mean(jnp.sum(prior * scaled**2, axis=-1), axis=-1))


def _room(limits: Float[Array, " m"], mean: Float[Array, "m B"], rest: Float[Array, "m B"]) -> Float[Array, " m"]:
    """limit − mean_b E_π[Q_c], exact to its last digits: states often differ far more than particles do."""
    difference, error = _two_sum(limits[:, None], -mean)
    terms = jnp.concatenate([difference, error, -rest], axis=-1)
    carried = jnp.zeros_like(terms)
    while terms.shape[-1] > 1:
        if terms.shape[-1] % 2:
            pad = ((0, 0), (0, 1))
            terms, carried = jnp.pad(terms, pad), jnp.pad(carried, pad)
        terms, error = _two_sum(terms[:, ::2], terms[:, 1::2])
        carried = carried[:, ::2] + carried[:, 1::2] + error
    return (terms + carried)[:, 0] / mean.shape[-1]


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b rounded, and the rounding error (Knuth)."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)
