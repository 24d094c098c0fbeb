"""Acting in environments."""

import jax
import numpy as np
import pytest
from scipy import stats

from cvpo.algorithms.base import Spec
from cvpo.algorithms.registry import build
from cvpo.algorithms.shared.noise import draw_noise
from cvpo.envs.rollout import make_act, make_random_act
from cvpo.presets import make_config

SPEC = Spec(obs_size=3, action_size=2, discrete=False, cost_limits=(1.0,), episode_length=4)


@pytest.mark.parametrize("name", ["cvpo", "sac-lag", "td3-lag"])
def test_environments_without_noise_get_the_deterministic_action_and_others_what_they_always_got(name):
    algorithm = build(name, make_config(name, None, {"hidden": (8,)}), SPEC)
    params = algorithm.policy(jax.jit(algorithm.init)(jax.random.key(0)))
    rng = np.random.default_rng(0)
    obs, noise = rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=(5, 2)).astype(np.float32)
    drawn, drawn_log_prob = make_act(algorithm)(params, obs, noise)
    calm, _ = make_act(algorithm)(params, obs, None)
    mixed, mixed_log_prob = make_act(algorithm, 2)(params, obs, noise)
    np.testing.assert_allclose(mixed[:2], calm[:2], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(mixed[2:], drawn[2:])
    np.testing.assert_array_equal(mixed_log_prob[2:], drawn_log_prob[2:])
    assert not np.allclose(drawn[:2], calm[:2]) and np.isfinite(mixed_log_prob).all()


@pytest.mark.parametrize("spec", [SPEC, Spec(3, 4, True, (), 4), Spec(3, 5, False, (), 4, choices=(2, 3))])
def test_random_actions_are_uniform(spec):
    noise = draw_noise(spec, jax.random.key(0), (20_000,))
    action, log_prob = make_random_act(spec)(None, np.zeros((20_000, 3), np.float32), noise)
    if spec.discrete:
        np.testing.assert_allclose(np.bincount(action) / 20_000, 1 / 4, atol=0.02)
        expected = -np.log(4)
    elif spec.choices:
        np.testing.assert_allclose(np.mean(action, 0), [1 / 2] * 2 + [1 / 3] * 3, atol=0.02)
        expected = -np.log(6)
    else:
        assert stats.kstest(np.asarray(action).ravel(), stats.uniform(-1, 2).cdf).pvalue > 0.001
        expected = -np.log(4)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-6)


def test_there_are_no_more_environments_without_noise_than_there_are():
    with pytest.raises(ValueError, match=r"noiseless_envs must be between 0 and 5, got 6"):
        make_config("cvpo", None, {"noiseless_envs": 6})
