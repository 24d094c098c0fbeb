"""The replay's ring of epochs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cvpo.algorithms.base import Spec, Transition, first_episode_means
from cvpo.envs.rollout import episode_statistics
from cvpo.training import replay
from cvpo.training.replay import Replay

SPEC = Spec(obs_size=1, action_size=1, discrete=False, cost_limits=(1.0,), episode_length=4)


def epoch(number: int) -> Transition:
    """A rollout [4, 2] whose reward is epoch·100 + step·10 + environment."""
    code = number * 100 + 10 * jnp.arange(4.0)[:, None] + jnp.arange(2.0)
    blank = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), replay.segment(SPEC, 2))
    return blank._replace(reward=code, obs=code[..., None], next_obs=code[..., None] + 10)


def filled(*numbers: int, size: int) -> Replay:
    ring = replay.create(SPEC, size, 2)
    for number in numbers:
        ring = replay.add(ring, epoch(number))
    return ring


def test_samples_come_from_the_filled_epochs_only_and_reach_all_of_them():
    batch = replay.sample(filled(0, 1, size=5), jax.random.key(0), 2000)
    seen = set(np.asarray(batch.reward).tolist())
    assert seen == {e * 100 + s * 10 + n for e in (0, 1) for s in range(4) for n in (0, 1)}
    np.testing.assert_array_equal(batch.obs[:, 0], batch.reward)  # fields stay together


def test_the_oldest_epoch_is_replaced():
    batch = replay.sample(filled(0, 1, 2, size=2), jax.random.key(0), 500)
    assert {int(x) // 100 for x in batch.reward} == {1, 2}


@pytest.mark.parametrize("epochs", [1, 2, 3, 5])
def test_a_restored_replay_is_the_one_that_was_saved(epochs):
    """Epochs lie where they lay, so that the same draws give the same steps, and the next one replaces the oldest."""
    whole = filled(*range(epochs), size=3)
    kept = [(number, epoch(number)) for number in range(max(0, epochs - 3), epochs)]  # as a checkpoint keeps them
    restored = replay.restore(replay.create(SPEC, 3, 2), kept)
    jax.tree.map(np.testing.assert_array_equal, restored, whole)
    more = (replay.add(ring, epoch(epochs)) for ring in (restored, whole))
    draws = [replay.sample(ring, jax.random.key(1), 100).reward for ring in more]
    np.testing.assert_array_equal(*draws)


def test_sequences_follow_one_environment_and_its_last_step_is_ended():
    batch = replay.sample(filled(0, 1, size=2), jax.random.key(1), 300, 3)
    assert batch.reward.shape == (300, 3)
    for rewards, ended in zip(np.asarray(batch.reward), np.asarray(batch.ended), strict=True):
        for k in range(2):
            if rewards[k] // 10 % 10 == 3:  # the epoch's last step
                assert ended[k] and rewards[k + 1] == rewards[k] - 30  # the first step comes after it
            else:
                assert not ended[k] and rewards[k + 1] == rewards[k] + 10


def test_sampling_is_uniform():
    batch = replay.sample(filled(0, size=1), jax.random.key(2), 40_000)
    _, counts = np.unique(batch.reward, return_counts=True)
    assert counts.shape == (8,)
    assert np.abs(counts - 5000).max() < 5 * np.sqrt(5000)


def test_every_place_of_a_sequence_is_uniform():
    batch = replay.sample(filled(0, size=1), jax.random.key(2), 40_000, 3)
    for place in range(3):
        _, counts = np.unique(batch.reward[:, place], return_counts=True)
        assert counts.shape == (8,) and np.abs(counts - 5000).max() < 5 * np.sqrt(5000)


def test_means_are_those_of_whole_episodes_that_no_end_of_an_epoch_has_chosen():
    """Episodes of cost 1 a step, which end with probability p: completed ones alone would be a quarter too cheap."""
    p, horizon, environments = 0.01, 200, 4000
    ended = np.random.default_rng(0).random((horizon, environments)) < p
    time_left = np.full(environments, horizon)
    for step in range(horizon):  # the time limit of every episode
        time_left -= 1
        ended[step] |= time_left == 0
        time_left[ended[step]] = horizon
    ones = np.ones((horizon, environments), np.float32)
    rollout = epoch(0)._replace(ended=ended, reward=2 * ones, costs=ones[..., None])
    reward, costs, lengths = episode_statistics(rollout)
    truth = (1 - (1 - p) ** horizon) / p
    assert abs(lengths.mean() - truth) < 4 * lengths.std() / np.sqrt(environments)
    assert np.array_equal(reward, 2.0 * lengths) and np.array_equal(costs[:, 0], lengths)
    traced = rollout._replace(ended=jnp.asarray(ended))
    np.testing.assert_allclose(first_episode_means(traced, jnp.asarray(rollout.costs)), costs.mean(0), rtol=1e-5)


def test_means_end_with_the_first_episode():
    ended = jnp.array([[False, False], [True, False], [False, True], [True, False]])
    values = jnp.array([[1.0, 10.0], [2.0, 20.0], [100.0, 30.0], [100.0, 100.0]])
    assert float(first_episode_means(epoch(0)._replace(ended=ended), values)) == (1 + 2 + 10 + 20 + 30) / 2


def test_states_are_drawn_one_by_one_from_all_that_is_filled():
    ring = filled(0, 1, size=5)
    states = replay.sample_states(ring, jax.random.key(0), 4000)
    there = np.asarray(ring.steps.obs[:2]).reshape(-1, states.shape[-1])
    seen, counts = np.unique(np.asarray(states), axis=0, return_counts=True)
    np.testing.assert_array_equal(seen, np.unique(there, axis=0))  # each of them, and none of what is not filled
    expected = 4000 / len(seen)
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()
