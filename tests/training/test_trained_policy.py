"""The policy that a run leaves, called with observations."""

import numpy as np
import pytest
from bandit_runs import TINY, bandit
from safetensors.numpy import load_file
from toys import Menu

import cvpo


def test_the_policy_keeps_its_normalizer(tmp_path):
    run = bandit(tmp_path, config=TINY | {"episode_length": 10, "normalize_observations": True})
    policy = run.policy()
    metrics = run.metrics()[-1]
    assert np.isfinite(metrics["eval/reward"])
    arrays = load_file(run.path / "policy" / "policy.safetensors")
    # what Bandit shows is uniform on [-1, 1], and every step of the run was seen
    np.testing.assert_allclose(arrays["observation/mean"], 0.0, atol=0.25)
    np.testing.assert_allclose(arrays["observation/deviation"], 3**-0.5, atol=0.15)
    assert policy(np.zeros(2)).shape == (1,)


@pytest.fixture(scope="module")
def policy(whole):
    return whole.policy()


class TestPolicy:
    def test_one_observation_or_a_batch(self, policy):
        batch = np.random.default_rng(0).uniform(-1, 1, (5, 2))
        actions = policy(batch)
        assert actions.shape == (5, 1) and isinstance(actions, np.ndarray) and actions.dtype == np.float32
        np.testing.assert_allclose(policy(batch[3]), actions[3], rtol=1e-6)

    def test_noise_follows_its_seed(self, policy):
        policy.seed(3)
        first = policy(np.zeros(2), deterministic=False)
        second = policy(np.zeros(2), deterministic=False)
        policy.seed(3)
        np.testing.assert_array_equal(policy(np.zeros(2), deterministic=False), first)
        assert first != second

    @pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((2, 2, 2)), np.array(["a", "b"]), np.array([np.nan, 0])])
    def test_a_wrong_observation_is_refused(self, policy, wrong):
        with pytest.raises(ValueError, match=r"observation must"):
            policy(wrong)


def test_discrete_policies_give_the_spaces_own_integers(tmp_path):
    run = cvpo.train(Menu, steps=20, cost_limit=1, run_dir=tmp_path, quiet=True, config=TINY | {"episode_length": 10})
    assert run.policy()(np.zeros((4, 1))).dtype.kind == "i"
    assert run.policy()(np.zeros(1)) in (0, 1, 2)
