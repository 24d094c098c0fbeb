"""Learners: both kinds behind one interface, compiled once, and exact wherever a chunk of updates ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cvpo.algorithms.base import Spec, Transition
from cvpo.algorithms.registry import build
from cvpo.errors import BadValue
from cvpo.presets import make_config
from cvpo.training import replay
from cvpo.training.learners import OffPolicyLearner, OnPolicyLearner, make_learner

SPEC = Spec(obs_size=3, action_size=2, discrete=False, cost_limits=(1.0,), episode_length=10)
QUICK = {"hidden": (16,), "batch_size": 32, "particles": 8, "envs": 4, "update_ratio": 1.0}


def rollout(seed: int = 0) -> Transition:
    """Made-up steps as the environments give them."""
    rng = np.random.default_rng(seed)
    steps = jax.tree.map(
        lambda x: rng.normal(size=x.shape).astype(x.dtype) if x.dtype == jnp.float32 else np.zeros(x.shape, x.dtype),
        replay.segment(SPEC, QUICK["envs"]),
    )
    steps.ended[-1] = True
    return steps._replace(costs=np.abs(steps.costs))


def new_learner(algorithm=None, **settings):
    config = make_config("cvpo", None, QUICK | settings)
    learner = make_learner(algorithm or build("cvpo", config, SPEC), config, SPEC, 5)
    learner.begin(jax.random.key(0))
    return learner


def test_methods_with_a_replay_learn_off_policy():
    on_policy = make_config("ppo-lag", None, {"envs": 4})
    assert isinstance(make_learner(build("ppo-lag", on_policy, SPEC), on_policy, SPEC, 5), OnPolicyLearner)
    assert isinstance(new_learner(), OffPolicyLearner)


def test_the_update_is_traced_once_for_chunks_of_any_length():
    traces = []
    algorithm = build("cvpo", make_config("cvpo", None, QUICK), SPEC)

    def update(state, batch, key):
        traces.append(1)
        return algorithm.update(state, batch, key)

    learner = new_learner(algorithm._replace(update=update))
    for epoch in range(3):
        learner.learn(epoch, rollout(epoch), jax.random.key(epoch), lambda fraction: None)
    learner.update(3, jax.random.key(3), lambda fraction: None)
    assert len(traces) == 1


def test_chunks_do_not_change_the_result(monkeypatch):
    ends, results = [], []
    for seconds, updates in ((0.0, 40), (1e6, 40), (1e6, 39)):  # chunks of 8 updates; one of 8, and all others
        monkeypatch.setattr("cvpo.training.learners.CHUNK_SECONDS", seconds)
        learner, chunks = new_learner(update_ratio=0.01), []
        learner.learn(0, rollout(), jax.random.key(0), lambda fraction: None)  # no update is due yet
        info = learner.update(updates, jax.random.key(0), chunks.append)
        results.append(jax.device_get((learner.state, info)))
        ends.append(chunks)
    assert ends[:2] == [[0.2, 0.4, 0.6, 0.8, 1.0], [0.2, 1.0]]
    jax.tree.map(np.testing.assert_array_equal, *results[:2])
    different = [not np.array_equal(*pair) for pair in zip(*map(jax.tree.leaves, results[1:]), strict=True)]
    assert any(different)


def test_updates_keep_to_their_ratio_over_the_run():
    """40 steps an epoch at 0.33 updates each: 13, 13, 13, 13, 14 make 66 in five epochs."""
    learner = new_learner(update_ratio=0.33, early_update_factor=1.0)
    done = []
    learner.update = lambda updates, key, progress: done.append(updates) or {}
    for epoch in range(5):
        learner.learn(epoch, rollout(epoch), jax.random.key(epoch), lambda fraction: None)
    assert done == [13, 13, 13, 13, 14]


@pytest.mark.parametrize("factor", [1.0, 1.5, 4.0])
def test_the_update_ratio_falls_from_its_early_to_its_last_value(factor):
    config = make_config("cvpo", None, {"update_ratio": 0.5, "early_update_factor": factor})
    steps = np.arange(0, 100_001, 100)
    due = np.array([config.updates_before(n) for n in steps])
    middle = (steps[1:] + steps[:-1]) / 2
    expected = 0.5 * np.clip(factor * 10_000 / middle, 1.0, factor)
    np.testing.assert_allclose(np.diff(due) / 100, expected, atol=0.015)  # whole numbers of updates
    np.testing.assert_allclose(due[1:], np.cumsum(expected * 100), atol=2)


def test_a_restored_learner_goes_on_as_the_one_that_was_saved():
    learner, epochs = new_learner(), [rollout(seed) for seed in range(3)]
    for epoch, steps in enumerate(epochs):
        if epoch == 2:
            other = new_learner()
            other.restore(jax.device_get(learner.state), enumerate(epochs[:2]))
            other.learn(2, steps, jax.random.key(2), lambda fraction: None)
        learner.learn(epoch, steps, jax.random.key(epoch), lambda fraction: None)
    jax.tree.map(np.testing.assert_array_equal, *map(jax.device_get, (learner.state, other.state)))


def test_a_replay_must_hold_an_epoch():
    with pytest.raises(BadValue, match="replay_capacity 39 does not hold one epoch of 40 steps"):
        new_learner(replay_capacity=39)


@pytest.mark.parametrize("envs", [1, 2, 5])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_a_share_of_the_episodes_acts_without_noise_once_the_policy_comes_to_rest(envs, share):
    settings = {"envs": envs, "noiseless_share": share, "policy_steady_updates": 100, "early_update_factor": 1.0}
    learner = new_learner(**settings)
    noise = [learner.noise(epoch, jax.random.key(epoch)) for epoch in range(200)]
    silent = np.array([(epoch == 0).all((0, 2)) for epoch in noise])  # [epochs, N]
    at_rest = 100 // (envs * SPEC.episode_length)  # epochs, at one update a step
    assert not silent[:at_rest].any()
    rest = silent[at_rest:].ravel()
    counts = np.convolve(rest, np.ones(20, int), "valid")  # in any 20 episodes in a row
    assert abs(counts - 20 * share).max() <= 1
    drawn = new_learner(**settings | {"noiseless_share": 0.0})
    for epoch in (0, 150):  # the others act as they always did
        usual = drawn.noise(epoch, jax.random.key(epoch))
        np.testing.assert_array_equal(noise[epoch][:, ~silent[epoch]], usual[:, ~silent[epoch]])


def test_random_actions_and_policies_that_never_rest_always_have_noise():
    for settings in ({"random_epochs": 100}, {"policy_steady_updates": None}):
        learner = new_learner(**{"policy_steady_updates": 1} | settings)
        assert not any(learner.noiseless(epoch).any() for epoch in range(100))
