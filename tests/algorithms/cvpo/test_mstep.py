"""Divergences against closed forms and sampling, the dual step, and the way back into the trust region."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cvpo.algorithms.cvpo.mstep import MIN_DUAL, dual_ascent, step_back, weighted_log_likelihood
from cvpo.algorithms.shared.distributions import (
    Categorical,
    Gaussian,
    categorical_kl,
    gaussian_kl,
    gaussian_kl_mean,
    gaussian_kl_scale,
)

seeds = st.integers(0, 2**31)
sizes = st.sampled_from([1, 3])


def random_gaussian(rng, size, batch=()):
    tril = np.tril(rng.normal(size=(*batch, size, size)) * 0.5, -1)
    tril = tril + np.eye(size) * rng.uniform(0.3, 2.0, (*batch, size, 1))
    return Gaussian(jnp.asarray(rng.normal(size=(*batch, size)), jnp.float32), jnp.asarray(tril, jnp.float32))


def textbook_kl(old, new):
    tril_old, tril_new = np.asarray(old.scale_tril, float), np.asarray(new.scale_tril, float)
    cov_old, cov_new = tril_old @ tril_old.T, tril_new @ tril_new.T
    inverse, step = np.linalg.inv(cov_new), np.asarray(new.mean, float) - np.asarray(old.mean, float)
    log_det = np.linalg.slogdet(cov_new)[1] - np.linalg.slogdet(cov_old)[1]
    return 0.5 * (np.trace(inverse @ cov_old) - step.size + log_det + step @ inverse @ step)


def test_gaussian_kl_of_scalars_by_hand():
    old = Gaussian(jnp.array([1.0]), jnp.array([[1.0]]))
    new = Gaussian(jnp.array([3.0]), jnp.array([[2.0]]))
    assert gaussian_kl(old, new) == pytest.approx(np.log(2) + (1 + 4) / 8 - 0.5)
    assert gaussian_kl_mean(old, new) == pytest.approx(2.0)
    assert gaussian_kl_scale(old, new) == pytest.approx(np.log(2) + 1 / 8 - 0.5)


@given(seeds, sizes)
@settings(deadline=None, max_examples=15)
def test_gaussian_kl_agrees_with_the_textbook(seed, size):
    rng = np.random.default_rng(seed)
    old, new = random_gaussian(rng, size), random_gaussian(rng, size)
    assert gaussian_kl(old, new) == pytest.approx(textbook_kl(old, new), rel=1e-3, abs=1e-5)


def test_gaussian_kl_agrees_with_sampling():
    rng = np.random.default_rng(0)
    old, new = random_gaussian(rng, 3), random_gaussian(rng, 3)
    draws = old.sample(jax.random.key(0), 200_000)
    ratio = np.asarray(old.log_prob(draws) - new.log_prob(draws))
    assert gaussian_kl(old, new) == pytest.approx(ratio.mean(), abs=float(4 * ratio.std() / 200_000**0.5))


@given(seeds, sizes)
@settings(deadline=None, max_examples=15)
def test_decoupled_parts_are_the_kl_when_only_one_part_moves(seed, size):
    rng = np.random.default_rng(seed)
    old, other = random_gaussian(rng, size), random_gaussian(rng, size)
    mean_moved, scale_moved = old._replace(mean=other.mean), old._replace(scale_tril=other.scale_tril)
    np.testing.assert_allclose(gaussian_kl(old, mean_moved), gaussian_kl_mean(old, mean_moved), rtol=1e-5)
    np.testing.assert_allclose(gaussian_kl(old, scale_moved), gaussian_kl_scale(old, scale_moved), rtol=1e-5)
    assert gaussian_kl_scale(old, mean_moved) == 0 and gaussian_kl_mean(old, scale_moved) == 0


@given(seeds, sizes)
@settings(deadline=None, max_examples=15)
def test_gaussian_kl_is_positive_unless_equal(seed, size):
    rng = np.random.default_rng(seed)
    old, new = random_gaussian(rng, size), random_gaussian(rng, size)
    assert gaussian_kl(old, old) == 0
    assert gaussian_kl(old, new) > 0


def test_tiny_covariance_divergence_survives_float32():
    # a relative change of 1e-4 in one deviation: KL = x² for small x
    tril = jnp.array([[0.7, 0.0], [0.2, 1.3]])
    old = Gaussian(jnp.zeros(2), tril)
    new = Gaussian(jnp.zeros(2), tril.at[0, 0].mul(1.0001))
    assert gaussian_kl_scale(old, new) == pytest.approx(textbook_kl(old, new), rel=0.02)


def test_batched_kl_is_one_for_each_state():
    rng = np.random.default_rng(1)
    old, new = random_gaussian(rng, 2, (3, 4)), random_gaussian(rng, 2, (3, 4))
    together = gaussian_kl(old, new)
    assert together.shape == (3, 4)
    one = gaussian_kl(*(jax.tree.map(lambda x: x[1, 2], g) for g in (old, new)))
    np.testing.assert_allclose(together[1, 2], one, rtol=1e-5)


def test_categorical_kl_by_hand_and_in_general():
    old, new = Categorical(jnp.log(jnp.array([0.5, 0.5]))), Categorical(jnp.log(jnp.array([0.25, 0.75])))
    assert categorical_kl(old, new) == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(2 / 3))
    logits = jax.random.normal(jax.random.key(0), (2, 50, 4))
    divergence = categorical_kl(Categorical(logits[0]), Categorical(logits[1]))
    assert divergence.shape == (50,) and (divergence > 0).all()
    np.testing.assert_allclose(categorical_kl(Categorical(logits[0]), Categorical(logits[0] + 5)), 0, atol=1e-6)


def test_weighted_log_likelihood_by_hand():
    log_prob = jnp.array([[1.0, 2.0], [3.0, 5.0]])
    assert weighted_log_likelihood(log_prob, jnp.array([[0.5, 0.5], [1.0, 0.0]])) == pytest.approx((1.5 + 3) / 2)


def test_the_weighted_fit_has_the_weighted_mean():
    """The gradient with respect to a Gaussian's mean vanishes exactly at the weighted mean of the particles."""
    particles = jnp.array([[[0.0], [1.0], [4.0]]])
    weights = jnp.array([[0.5, 0.25, 0.25]])

    def objective(mean):
        return weighted_log_likelihood(Gaussian(mean, jnp.ones((1, 1, 1))).log_prob(particles), weights)

    np.testing.assert_allclose(jax.grad(objective)(jnp.array([[1.25]])), 0, atol=1e-6)
    assert objective(jnp.array([[1.25]])) > objective(jnp.array([[1.3]]))


def test_dual_ascent_by_hand_and_within_bounds():
    ascend = dual_ascent
    assert ascend(jnp.array(1.0), jnp.array(0.15), 0.1, 0.2, 10.0) == pytest.approx(np.exp(0.2 * 0.5))
    assert ascend(jnp.array(1.0), jnp.array(0.05), 0.1, 0.2, 10.0) == pytest.approx(np.exp(-0.2 * 0.5))
    assert ascend(jnp.array(1.0), jnp.array(50.0), 0.1, 0.2, 10.0) == pytest.approx(np.exp(0.2))  # a spike counts as 2
    assert ascend(jnp.array(9.9), jnp.array(5.0), 0.1, 0.2, 10.0) == 10
    assert ascend(jnp.array(MIN_DUAL), jnp.array(0.0), 0.1, 0.2, 10.0) == pytest.approx(MIN_DUAL)


def test_step_back_keeps_the_largest_halving_inside_the_limit():
    def squared_distance(params):
        return (params["a"] ** 2).sum() + params["b"] ** 2

    old = {"a": jnp.zeros(2), "b": jnp.array(0.0)}
    new = {"a": jnp.array([3.0, 0.0]), "b": jnp.array(4.0)}  # divergence 25, 6.25, 1.5625
    params, fraction = jax.jit(lambda old, new: step_back(old, new, squared_distance, 2.0))(old, new)
    assert fraction == 0.25
    np.testing.assert_allclose(params["a"], [0.75, 0.0])
    params, fraction = step_back(old, new, squared_distance, 25.0)
    assert fraction == 1 and params["b"] == 4


def test_step_back_respects_every_limit():
    def two(params):
        return jnp.stack([params, 10 * params])

    params, fraction = step_back(jnp.array(0.0), jnp.array(1.0), two, jnp.array([0.6, 1.5]))
    assert fraction == 0.125 and params == 0.125


@pytest.mark.parametrize("new", [jnp.nan, jnp.inf, 1e9])
def test_step_back_returns_the_old_parameters_when_nothing_helps(new):
    params, fraction = step_back(jnp.array(2.0), jnp.array(new), lambda p: jnp.abs(p - 2), 1e-3)
    assert params == 2 and fraction == 0


def test_each_part_of_the_trust_region_may_have_a_bound_of_its_own():
    far_outside, bounds = jnp.array([1.0, 1.0]), jnp.array([0.1, 0.1])
    raised = dual_ascent(jnp.array([3.0, 300.0]), far_outside, bounds, 10.0, jnp.array([3.2, 320.0]))
    np.testing.assert_allclose(raised, [3.2, 320.0])
