"""Vector environments of every autoreset mode give the same transitions."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from cvpo.envs.adapter import Environments
from cvpo.envs.errors import BadEnvironment
from cvpo.envs.rollout import collect, evaluate_policy


class Walk(gym.Env):
    """Ends after 3, 4 or 5 steps, as its seed says; observes (episode, step)."""

    observation_space = gym.spaces.Box(0, 100, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    episode = -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.length, self.episode = 3 + seed % 3, -1
        self.episode, self.time = self.episode + 1, 0
        return self._look(), {}

    def _look(self):
        return np.array([self.episode, self.time], np.float32)

    def step(self, action):
        self.time += 1
        reward = 10.0 * self.episode + self.time
        return self._look(), reward, self.time == self.length, False, {"cost": reward / 2}


def act(params, obs, noise):
    return np.zeros((len(obs), 1), np.float32), np.zeros(len(obs), np.float32)


def vector(mode, count=3):
    return SyncVectorEnv([Walk] * count, autoreset_mode=mode)


def rollout(source):
    with Environments(source, 3, episode_length=9) as environments:
        return collect(environments, act, None, np.zeros((9, 3, 1)), np.arange(3), lambda fraction: None)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("callable_", [False, True])
def test_every_mode_gives_what_copies_give(mode, callable_):
    expected = rollout(Walk)
    found = rollout((lambda: vector(mode)) if callable_ else vector(mode))
    for name, a, b in zip(expected._fields, expected, found, strict=True):
        if name == "ended":  # the epoch's end cuts only the copies' episodes that are that long
            a, b = a[:-1], b[:-1]
        np.testing.assert_array_equal(a, b, name)
    # by hand: environment 0 has episodes of 3 steps, whose last observation is their own
    np.testing.assert_array_equal(found.reward[:, 0], [1, 2, 3, 11, 12, 13, 21, 22, 23])
    np.testing.assert_array_equal(found.next_obs[2, 0], [0, 3])
    np.testing.assert_array_equal(found.obs[3, 0], [1, 0])
    np.testing.assert_array_equal(found.ended[:, 1], [False, False, False, True] * 2 + [False])


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_more_episodes_than_environments_are_evaluated_in_rounds(mode):
    with Environments(vector(mode), 3, episode_length=9) as environments:
        reward, costs, length = evaluate_policy(environments, act, None, np.array([0, 1, 2, 2, 0]))
    np.testing.assert_array_equal(length, [3, 4, 5, 5, 3])
    np.testing.assert_array_equal(reward, [6, 10, 15, 15, 6])
    np.testing.assert_array_equal(costs[:, 0], reward / 2)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_parts_of_a_cost_are_numbers(mode):
    class Tells(Walk):
        def step(self, action):
            *values, info = super().step(action)
            no_parts = {"cost_reason": "speed", "cost_each": np.ones(2), "cost_by": {"a": 1}}
            return *values, info | no_parts | {"cost_half": info["cost"] / 2}

    with Environments(SyncVectorEnv([Tells] * 3, autoreset_mode=mode), 3, episode_length=9) as environments:
        environments.reset([0, 1, 2])
        for _ in range(3):  # the first environment ends with the last of these
            step = environments.step(np.zeros((3, 1)))
    assert list(step.parts) == ["cost_half"]
    np.testing.assert_array_equal(step.parts["cost_half"], step.costs[:, 0] / 2)


def test_a_vector_environment_that_was_handed_in_stays_open():
    env = vector(AutoresetMode.SAME_STEP)
    with Environments(env, 99, episode_length=9) as environments:
        assert environments.count == 3
    assert not env.closed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadata": {}}, r"does not say when it begins the next episode: set metadata\['autoreset_mode'\]"),
        ({"step": lambda action: (0, 0)}, "step must return five values, got tuple"),
        ({"reset": lambda **_: np.zeros((3, 2))}, r"reset must return \(observations, infos\), got ndarray"),
        ({"reset": lambda **_: (np.zeros((2, 2)), {})}, "gave 2 observations, not one for each of 3"),
        ({"reset": lambda **_: (np.zeros((3, 7)), {})}, r"broke its observation space.*\(2,\)"),
    ],
)
def test_what_is_wrong_with_one_is_named(change, message):
    env = vector(AutoresetMode.SAME_STEP)
    for name, value in change.items():
        setattr(env, name, value)
    with pytest.raises(BadEnvironment, match=f"SyncVectorEnv.*{message}"):  # noqa: SIM117
        with Environments(env, 3, episode_length=9) as environments:
            environments.reset([0, 1, 2])
            environments.step(np.zeros((3, 1)))


def test_one_without_costs_is_told_which_infos_there_are():
    class Free(Walk):
        def step(self, action):
            return *super().step(action)[:4], {"heat": 1.0}

    env = SyncVectorEnv([Free] * 2)
    with Environments(env, 2, episode_length=9) as environments:
        environments.reset([0, 1])
        with pytest.raises(BadEnvironment, match=r"no infos\['cost'\]; infos has \['heat'\].*cost_keys"):
            environments.step(np.zeros((2, 1)))
    with Environments(env, 2, episode_length=9, cost_keys=("heat",)) as environments:
        environments.reset([0, 1])
        np.testing.assert_array_equal(environments.step(np.zeros((2, 1))).costs, [[1.0], [1.0]])
