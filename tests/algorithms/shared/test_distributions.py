"""Densities against SciPy, samples against their own densities, and the triangular algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cvpo.algorithms.shared.distributions import Categorical, Gaussian, SquashedGaussian, log_det, whiten

TRIL = jnp.array([[0.8, 0.0], [-0.3, 0.5]])
MEAN = jnp.array([0.2, -1.0])


def test_gaussian_density_and_entropy_agree_with_scipy():
    actions = jax.random.normal(jax.random.key(0), (7, 2))
    reference = stats.multivariate_normal(np.asarray(MEAN), np.asarray(TRIL @ TRIL.T))
    np.testing.assert_allclose(Gaussian(MEAN, TRIL).log_prob(actions), reference.logpdf(actions), rtol=1e-4)
    assert Gaussian(MEAN, TRIL).entropy() == pytest.approx(reference.entropy(), rel=1e-5)


def test_gaussian_samples_have_the_mean_and_covariance():
    draws = np.asarray(Gaussian(MEAN, TRIL).sample(jax.random.key(1), 100_000))
    np.testing.assert_allclose(draws.mean(0), MEAN, atol=0.02)
    np.testing.assert_allclose(np.cov(draws.T), TRIL @ TRIL.T, atol=0.02)


def test_gaussian_shapes_follow_the_batch():
    policy = Gaussian(jnp.zeros((5, 3, 2)), jnp.broadcast_to(TRIL, (5, 3, 2, 2)))
    particles = policy.sample(jax.random.key(0), 4)
    assert particles.shape == (5, 3, 4, 2)
    assert policy.log_prob(particles).shape == (5, 3, 4)
    assert policy.entropy().shape == (5, 3)


def test_squashed_density_is_that_of_the_draw():
    """Change of variables by SciPy: log p(a) = log N(atanh a) - log (1 - a²)."""
    mean, scale = jnp.array([[0.3, -0.5]] * 50), jnp.array([[0.4, 0.9]] * 50)
    action, log_prob = SquashedGaussian(mean, scale).sample_and_log_prob(jax.random.key(2))
    action = np.asarray(action, float)
    assert (np.abs(action) < 1).all()
    expected = stats.norm(mean, scale).logpdf(np.arctanh(action)) - np.log(1 - action**2)
    np.testing.assert_allclose(log_prob, expected.sum(-1), rtol=1e-3, atol=1e-3)


def test_squashed_density_integrates_to_one():
    # E[1 / p(a)] over draws is the length of the support
    policy = SquashedGaussian(jnp.full((200_000, 1), 0.2), jnp.full((200_000, 1), 0.8))
    _, log_prob = policy.sample_and_log_prob(jax.random.key(3))
    inverse = np.exp(-np.asarray(log_prob, float))
    assert inverse.mean() == pytest.approx(2.0, abs=0.05)


def test_squashed_density_is_finite_at_saturation():
    for mean in (-30.0, 30.0):
        _, log_prob = SquashedGaussian(jnp.array([mean]), jnp.array([0.1])).sample_and_log_prob(jax.random.key(0))
        assert np.isfinite(log_prob)


def test_categorical_agrees_with_scipy():
    probabilities = np.array([0.1, 0.6, 0.3])
    policy = Categorical(jnp.log(jnp.array(probabilities)) + 3.0)
    np.testing.assert_allclose(jnp.exp(policy.log_probs), probabilities, rtol=1e-5)
    assert policy.entropy() == pytest.approx(stats.entropy(probabilities), rel=1e-5)
    assert policy.log_prob(jnp.array(1)) == pytest.approx(np.log(0.6), rel=1e-5)


@given(st.integers(0, 2**31), st.sampled_from([1, 4]))
@settings(deadline=None, max_examples=15)
def test_whiten_undoes_the_factor(seed, size):
    rng = np.random.default_rng(seed)
    tril = jnp.asarray(np.tril(rng.normal(size=(3, size, size)), -1) * 0.5 + np.eye(size) * rng.uniform(0.5, 2))
    x = rng.normal(size=(3, size))
    np.testing.assert_allclose(jnp.einsum("bij,bj->bi", tril, whiten(tril, jnp.asarray(x))), x, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(log_det(tril), np.linalg.slogdet(tril)[1], rtol=1e-3, atol=1e-4)
