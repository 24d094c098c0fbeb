"""The dual of the E-step in natural parameters: its value, gradient and Hessian, and the certificate of a solution.

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

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


class Problem(NamedTuple):
    """Minimise G over x >= 0; the data are in units in which every feature has variance one under the prior."""

    features: Float[Array, "n B K"]
    prior: Float[Array, "B K"]  # probabilities
    offsets: Float[Array, " n"]  # b
    denominator: Float[Array, " n"]  # a
    usable: Bool[Array, " n"]  # x stays at its start where False
    kl_limit: Float[Array, ""]  # ε
    floor: Float[Array, ""]  # no distribution has a smaller objective: a dual value below it proves there is none


class Tilt(NamedTuple):
    """What q ∝ π exp(logits) gives, as means over states."""

    log_ratio: Float[Array, "B K"]  # log(q / π)
    weights: Float[Array, "B K"]  # q, to an absolute error of one rounding
    mean: Float[Array, " n"]  # E_q[f] = ∇A
    kl: Float[Array, ""]  # KL(q || π)
    shortfall: Float[Array, ""]  # E_q[max logits − logits], zero where q sits on the best particles


class Certificate(NamedTuple):
    """How far (x, q) is from optimal, free of units; the definitions are in docs/estep.md."""

    objective: Float[Array, ""]  # what q reaches
    dual: Float[Array, ""]  # G, the bound
    residual: Float[Array, ""]  # the worst relative violation of a KKT condition
    gap: Float[Array, ""]  # relative duality gap


def kl_terms(log_ratio: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """φ(u) = u eᵘ − eᵘ + 1, so that KL(q || p) = Σ p φ(log q/p); each term is >= 0 and correct to its last digits.

    The sum of q log(q/p) cancels to nothing when q is close to p: at a KL of 1e-6 float32 would keep two digits.
    """
    u = log_ratio
    small = jnp.where(jnp.abs(u) < 0.5, u, 0.0)
    series = small * (1 / 30 + small * (1 / 144 + small * (1 / 840 + small * (1 / 5760 + small / 45360))))
    near = small * small * (0.5 + small * (1 / 3 + small * (1 / 8 + series)))
    grown = jnp.expm1(u)
    return jnp.where(jnp.abs(u) < 0.5, near, u * (1.0 + grown) - grown)


def state_means(weights: Float[Array, "B K"], values: Float[Array, "n B K"]) -> Float[Array, "n B"]:
    """Σ_k weights · values, per state.

    One feature at a time: with weights broadcast along n, jaxlib 0.10.2 compiles values − means into a fusion that
    subtracts the first feature's means from all features, on CPUs, once n B K passes some 40,000.
    """
    return jnp.stack([jnp.sum(weights * value, axis=-1) for value in values])


def combine(coefficients: Float[Array, " n"], features: Float[Array, "n B K"]) -> Float[Array, "B K"]:
    """x·f; no matrix product, whose inputs GPUs may round to fewer digits."""
    return jnp.sum(coefficients[:, None, None] * features, axis=0)


def log_ratio(
    logits: Float[Array, "B K"], prior: Float[Array, "B K"]
) -> tuple[Float[Array, "B K"], Float[Array, "B K"]]:
    """log(q / π) for q ∝ π exp(logits), and logits less their maximum in each state; 0 outside the prior's support."""
    supported = prior > 0
    below = logits - jnp.max(jnp.where(supported, logits, -jnp.inf), axis=-1, keepdims=True)
    below = jnp.where(supported, below, 0.0)
    mass = jnp.sum(prior * jnp.exp(below), axis=-1, keepdims=True)
    return jnp.where(supported, below - jnp.log(mass), 0.0), below


def tilt(logits: Float[Array, "B K"], prior: Float[Array, "B K"], features: Float[Array, "n B K"]) -> Tilt:
    """Moments of q ∝ π exp(logits) over features that are centred under the prior."""
    u, below = log_ratio(logits, prior)
    gain = prior * jnp.expm1(u)  # q − π: keeps E_q[f] − E_π[f] accurate when q is close to π
    return Tilt(
        log_ratio=u,
        weights=prior + gain,
        mean=jnp.mean(state_means(gain, features), axis=-1),
        kl=jnp.mean(jnp.sum(prior * kl_terms(u), axis=-1)),
        shortfall=-jnp.mean(jnp.sum((prior + gain) * below, axis=-1)),
    )


def value_and_gradient(
    problem: Problem, x: Float[Array, " n"], at: Tilt
) -> tuple[Float[Array, ""], Float[Array, " n"]]:
    """G(x), by A(x) = x·E_q[f] − KL(q || π), and its gradient times a·x, ∇A + b − G a.

    The gradient is summed from differences, in which the large terms that G and E_q[f] share are gone.
    """
    a, reached = problem.denominator, problem.offsets + at.mean
    eta = 1.0 / jnp.dot(a, x)
    value = (problem.kl_limit - at.kl + jnp.dot(x, reached)) * eta
    differences = reached[:, None] * a[None, :] - a[:, None] * reached[None, :]
    gradient = (differences @ x - a * (problem.kl_limit - at.kl)) * eta
    return value, jnp.where(problem.usable, gradient, 0.0)


def deviations(at: Tilt, features: Float[Array, "n B K"]) -> Float[Array, "n B*K"]:
    """D with D Dᵀ = ∇²A, the mean over states of the covariance of the features under q."""
    centred = features - state_means(at.weights, features)[..., None]
    return (jnp.sqrt(at.weights / at.weights.shape[0]) * centred).reshape(features.shape[0], -1)


def certify(
    problem: Problem, x: Float[Array, " n"], at: Tilt, divergence: Float[Array, ""] | float = 0.0
) -> Certificate:
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

    unit = ball_radius(problem.kl_limit)
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


def ball_radius(kl_limit: Float[Array, ""]) -> Float[Array, ""]:
    """How far an expectation of unit variance moves within the KL ball, to first order: the unit of the residuals."""
    return jnp.minimum(1.0, jnp.sqrt(2.0 * kl_limit))
