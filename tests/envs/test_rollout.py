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


@pytest.mark.parametrize("name", ["cvpo", "sac-lag", "td3-lag", "ppo-lag"])
@pytest.mark.parametrize("spec", [SPEC, Spec(3, 4, True, (1.0,), 4), Spec(3, 5, False, (1.0,), 4, choices=(2, 3))])
def test_an_action_made_of_zeros_is_the_deterministic_one(name, spec):
    if spec is not SPEC and name in ("sac-lag", "td3-lag"):
        return  # they refuse choices
    algorithm = build(name, make_config(name, None, {"hidden": (8,)}), spec)
    params = algorithm.policy(jax.jit(algorithm.init)(jax.random.key(0)))
    rng = np.random.default_rng(0)
    obs, noise = rng.normal(size=(50, 3)).astype(np.float32), rng.normal(size=(50, spec.action_size)).astype(np.float32)
    act = make_act(algorithm)
    calm, zeros = act(params, obs, None), act(params, obs, np.zeros_like(noise))
    np.testing.assert_allclose(zeros[0], calm[0], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(zeros[1], calm[1], rtol=1e-4, atol=1e-4)
    assert not np.allclose(act(params, obs, noise)[0], calm[0])


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
