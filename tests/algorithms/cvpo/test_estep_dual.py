"""The dual, its derivatives and the certificate against autodiff, convexity and the paper's formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from cvpo.algorithms.cvpo.estep import dual

M, B, K = 2, 4, 5


def problem(seed: int = 0, kl_limit: float = 0.3) -> dual.Problem:
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.ones(K), size=B)
    features = rng.normal(size=(M + 1, B, K))
    features -= (prior * features).sum(-1, keepdims=True)
    return dual.Problem(
        features=jnp.asarray(features, jnp.float32),
        prior=jnp.asarray(prior, jnp.float32),
        offsets=jnp.array([0.0, 0.1, -0.2]),
        denominator=jnp.array([1.0, 0.0, 0.0]),
        usable=jnp.ones(M + 1, bool),
        kl_limit=jnp.array(kl_limit),
        floor=jnp.array(-jnp.inf),
    )


def log_partition(p: dual.Problem, x: Array) -> Array:
    return jnp.mean(jax.nn.logsumexp(dual.combine(x, p.features), b=p.prior, axis=-1))


def paper_dual(p: dual.Problem, eta_and_lambda: Array) -> Array:
    """Eq. (dual_opt) of Theorem 1; the features hold the reward and minus the costs, the offsets the limits."""
    eta, lam = eta_and_lambda[0], eta_and_lambda[1:]
    x = jnp.concatenate([jnp.ones(1), lam]) / eta
    return jnp.dot(lam, p.offsets[1:]) + eta * p.kl_limit + eta * log_partition(p, x)


X = jnp.array([0.8, 0.3, 1.1])


def test_moments_are_derivatives_of_the_log_partition() -> None:
    p = problem()
    at = dual.tilt(dual.combine(X, p.features), p.prior, p.features)
    root = dual.deviations(at, p.features)
    np.testing.assert_allclose(at.mean, jax.grad(lambda x: log_partition(p, x))(X), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(root @ root.T, jax.hessian(lambda x: log_partition(p, x))(X), rtol=1e-4, atol=1e-5)


def test_value_and_gradient_are_those_of_the_papers_dual() -> None:
    p = problem()
    at = dual.tilt(dual.combine(X, p.features), p.prior, p.features)
    value, gradient = dual.value_and_gradient(p, X, at)
    eta_and_lambda = jnp.concatenate([1 / X[:1], X[1:] / X[0]])
    np.testing.assert_allclose(value, paper_dual(p, eta_and_lambda), rtol=1e-5)

    def ratio(x: Array) -> Array:
        return (p.kl_limit + jnp.dot(x, p.offsets) + log_partition(p, x)) / jnp.dot(p.denominator, x)

    np.testing.assert_allclose(gradient, X[0] * jax.grad(ratio)(X), rtol=1e-4, atol=1e-6)


def test_papers_gradient_and_hessian() -> None:
    """The appendix: ∂g/∂η = ε − KL, ∂g/∂λ = limit − E[Q_c], and the Hessian as covariances under q."""
    p = problem()
    at = dual.tilt(dual.combine(X, p.features), p.prior, p.features)
    root = dual.deviations(at, p.features)
    eta = 1 / X[0]
    eta_and_lambda = jnp.concatenate([eta[None], X[1:] * eta])
    gradient = jax.grad(lambda v: paper_dual(p, v))(eta_and_lambda)
    np.testing.assert_allclose(gradient[0], p.kl_limit - at.kl, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(gradient[1:], (p.offsets + at.mean)[1:], rtol=1e-4, atol=1e-5)

    advantage = eta * (X @ root)  # centred Q_r − λ·Q_c, times the root of its weight
    costs = -root[1:]
    expected = np.zeros((M + 1, M + 1))
    expected[0, 0] = advantage @ advantage / eta**3
    expected[0, 1:] = expected[1:, 0] = costs @ advantage / eta**2  # the cross term is positive, as in the paper
    expected[1:, 1:] = costs @ costs.T / eta
    np.testing.assert_allclose(jax.hessian(lambda v: paper_dual(p, v))(eta_and_lambda), expected, rtol=1e-3, atol=1e-4)


def test_papers_dual_is_convex_along_random_segments() -> None:
    p = problem(3)
    rng = np.random.default_rng(0)
    ends = jnp.asarray(rng.uniform(0.05, 4.0, size=(200, 2, M + 1)), jnp.float32)
    g = jax.jit(jax.vmap(lambda v: paper_dual(p, v)))
    middle = g(ends.mean(1))
    assert np.all(middle <= (g(ends[:, 0]) + g(ends[:, 1])) / 2 + 1e-4)


def test_kl_terms_keep_their_digits_near_zero_and_far_away() -> None:
    u = np.concatenate([np.geomspace(1e-6, 20, 200), -np.geomspace(1e-6, 100, 200)]).astype(np.float32)
    exact = u.astype(float) * np.exp(u.astype(float)) - np.expm1(u.astype(float))
    reference = np.where(np.abs(u) < 1e-3, u.astype(float) ** 2 / 2 + u.astype(float) ** 3 / 3, exact)
    np.testing.assert_allclose(dual.kl_terms(jnp.asarray(u)), reference, rtol=3e-6)


@pytest.mark.parametrize("shape", [(2, 512, 128), (3, 512, 32), (5, 300, 64)])
def test_features_are_centred_by_their_own_mean_when_compiled(shape: tuple[int, int, int]) -> None:
    # Broadcast along the features, the weighted mean of the first was subtracted from all (jaxlib 0.10.2, CPU).
    rng = np.random.default_rng(0)
    features = rng.normal(size=shape).astype(np.float32)
    weights = rng.dirichlet(np.ones(shape[2]), size=shape[1]).astype(np.float32)
    compiled = jax.jit(lambda w, f: f - dual.state_means(w, f)[..., None])(weights, features)
    np.testing.assert_allclose(compiled, features - (weights * features).sum(-1, keepdims=True), atol=1e-5)
