"""What the old policy proposes to the E-step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cvpo.algorithms.base import Spec
from cvpo.algorithms.cvpo.config import Config
from cvpo.algorithms.cvpo.heads import make_head

SPEC = Spec(obs_size=2, action_size=3, discrete=False, cost_limits=(1.0,), episode_length=10)


def proposed(count, states=4):
    head = make_head(Config(hidden=(8,)), SPEC)
    old = head.distribution(head.init(jax.random.key(0)), jax.random.normal(jax.random.key(1), (states, 2)))
    actions, log_prior = head.candidates(old, jax.random.key(2), count)
    return old, np.asarray(actions), np.asarray(log_prior)


@pytest.mark.parametrize("count", [2, 8])
def test_the_candidates_have_the_policys_own_mean(count):
    old, actions, log_prior = proposed(count)
    assert actions.shape == (4, count, 3)
    np.testing.assert_allclose(actions.mean(1), old.mean, atol=1e-6)
    np.testing.assert_allclose(np.exp(log_prior), 1 / count, rtol=1e-6)


def test_an_odd_number_has_one_without_a_partner():
    old, actions, _ = proposed(5)
    assert actions.shape == (4, 5, 3)
    pairs = (actions[:, :2] + actions[:, 3:]) / 2
    np.testing.assert_allclose(pairs, np.repeat(old.mean[:, None], 2, axis=1), atol=1e-6)
    assert proposed(1)[1].shape == (4, 1, 3)


def test_each_candidate_is_a_draw_of_the_policy():
    old, actions, _ = proposed(20_000, states=1)
    covariance = np.cov(actions[0].T)
    expected = np.asarray(jnp.einsum("ij,kj->ik", old.scale_tril[0], old.scale_tril[0]))
    np.testing.assert_allclose(covariance, expected, atol=0.02)
