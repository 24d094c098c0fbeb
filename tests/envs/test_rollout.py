"""Acting in environments."""

import jax
import numpy as np
import pytest

from cvpo.algorithms.base import Spec
from cvpo.algorithms.registry import build
from cvpo.envs.rollout import make_act
from cvpo.presets import make_config

SPEC = Spec(obs_size=3, action_size=2, discrete=False, cost_limits=(1.0,), episode_length=4)


@pytest.mark.parametrize("name", ["cvpo", "sac-lag", "td3-lag"])
def test_environments_without_noise_get_the_deterministic_action_and_others_what_they_always_got(name):
    algorithm = build(name, make_config(name, None, {"hidden": (8,)}), SPEC)
    params = algorithm.policy(jax.jit(algorithm.init)(jax.random.key(0)))
    obs, key = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32), jax.random.key(1)
    drawn, drawn_log_prob = make_act(algorithm)(params, obs, key, 7)
    calm, _ = make_act(algorithm)(params, obs, None, 7)
    mixed, mixed_log_prob = make_act(algorithm, 2)(params, obs, key, 7)
    np.testing.assert_allclose(mixed[:2], calm[:2], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(mixed[2:], drawn[2:])
    np.testing.assert_array_equal(mixed_log_prob[2:], drawn_log_prob[2:])
    assert not np.allclose(drawn[:2], calm[:2]) and np.isfinite(mixed_log_prob).all()


def test_there_are_no_more_environments_without_noise_than_there_are():
    with pytest.raises(ValueError, match=r"noiseless_envs must be between 0 and 5, got 6"):
        make_config("cvpo", None, {"noiseless_envs": 6})
