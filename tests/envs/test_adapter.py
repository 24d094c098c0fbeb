"""Any Gymnasium environment behind the narrow interface of the loop."""

import gymnasium as gym
import numpy as np
import pytest
from toys import Bandit, Menu

from cvpo.envs.actions import NativeActions, from_native, rescale
from cvpo.envs.adapter import Environments
from cvpo.envs.errors import BadEnvironment
from cvpo.envs.worker.spaces import action_spec


class Custom(gym.Env):
    """One environment whose every part can be set."""

    def __init__(self, observation_space=None, action_space=None, observe=None, result=None, end=5):
        self.observation_space = observation_space or gym.spaces.Box(-1, 1, (3,), np.float32)
        self.action_space = action_space or gym.spaces.Box(-1, 1, (1,), np.float32)
        self._observe = observe or (lambda time: np.full(3, time, np.float32))
        self._result = result or (lambda obs, over: (obs, 1.0, over, False, {"cost": 0.5}))
        self._end, self._time, self.actions = end, 0, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._observe(0), {}

    def step(self, action):
        self._time += 1
        self.actions.append(action)
        return self._result(self._observe(self._time), self._time >= self._end)


def environments(count=2, episode_length=10, **kwargs):
    keys = {key: kwargs.pop(key) for key in ("num_costs", "cost_keys", "cost_required", "processes") if key in kwargs}
    return Environments(lambda: Custom(**kwargs), count, episode_length=episode_length, **keys)


def test_the_final_observation_of_an_episode_follows_its_last_step():
    with environments(end=3) as envs:
        envs.reset([0, 1])
        for time in range(1, 3):
            step = envs.step(np.zeros((2, 1)))
            np.testing.assert_array_equal(step.next_obs, np.full((2, 3), time))
            assert not step.ended.any()
        step = envs.step(np.zeros((2, 1)))
        assert step.terminated.all() and step.ended.all()
        np.testing.assert_array_equal(step.next_obs, np.full((2, 3), 3.0))  # where the episode ended
        np.testing.assert_array_equal(step.obs, np.zeros((2, 3)))  # where the next one starts
        np.testing.assert_array_equal(step.costs, [[0.5], [0.5]])  # the last step's own cost


def test_a_time_limit_truncates_and_does_not_terminate():
    with environments(end=100, episode_length=4) as envs:
        assert envs.episode_length == 4
        envs.reset([0, 1])
        for _ in range(3):
            assert not envs.step(np.zeros((2, 1))).ended.any()
        step = envs.step(np.zeros((2, 1)))
        assert step.ended.all() and not step.terminated.any()


def test_costs_of_environments_that_end_at_different_times_stay_apart():
    lengths = iter([2, 3])

    def make():
        end = next(lengths)
        return Custom(end=end, result=lambda obs, over: (obs, 0.0, over, False, {"cost": float(end)}))

    with Environments(make, 2, episode_length=50) as envs:
        envs.reset([0, 1])
        for _ in range(7):
            np.testing.assert_array_equal(envs.step(np.zeros((2, 1))).costs[:, 0], [2.0, 3.0])


def test_actions_reach_asymmetric_bounds_and_are_clipped():
    low, high = np.array([0.0, -4.0]), np.array([10.0, -2.0])
    np.testing.assert_allclose(
        rescale(np.array([[-1.0, 1.0], [0.0, 0.0], [-9.0, 9.0]]), low, high), [[0, -2], [5, -3], [0, -2]]
    )
    space = gym.spaces.Box(low.astype(np.float32), high.astype(np.float32))
    with environments(action_space=space) as envs:
        np.testing.assert_allclose(NativeActions(envs.action)(np.array([[1.0, -1.0]])), [[10.0, -4.0]])


def test_rounding_takes_no_action_beyond_the_bounds():
    space = gym.spaces.Box(-0.1, 0.2, (1,), np.float64)
    assert -0.1 + (0.2 + 0.1) > 0.2
    with environments(action_space=space) as envs:
        assert space.contains(NativeActions(envs.action)(np.array([[1.0]], np.float32))[0])


def test_discrete_actions_start_where_their_space_does():
    with environments(action_space=gym.spaces.Discrete(3, start=5)) as envs:
        assert envs.discrete and envs.action_size == 3
        np.testing.assert_array_equal(NativeActions(envs.action)(np.array([0, 2])), [5, 7])


@pytest.mark.parametrize(
    ("space", "actions", "known"),
    [
        (gym.spaces.Discrete(3, start=5), [5, 7], [0, 2]),
        (gym.spaces.MultiDiscrete([3, 2]), [[2, 0], [0, 1]], [[0, 0, 1, 1, 0], [1, 0, 0, 0, 1]]),
        (gym.spaces.MultiDiscrete([3], start=[5]), [[6], [5]], [[0, 1, 0], [1, 0, 0]]),
        (gym.spaces.MultiBinary(2), [[1, 0], [1, 1]], [[0, 1, 1, 0], [0, 1, 0, 1]]),
        (gym.spaces.Box(-4, 10, (2,)), [[10, 3], [-4, 3]], [[1, 0], [-1, 0]]),
    ],
)
def test_actions_in_own_units_are_those_of_the_policy_and_back(space, actions, known):
    spec = action_spec(space)
    native = np.array(actions, space.dtype)
    found = from_native(spec, native)
    assert found.dtype == (np.int32 if isinstance(space, gym.spaces.Discrete) else np.float32)
    np.testing.assert_array_equal(found, known)
    np.testing.assert_array_equal(NativeActions(spec)(found), native)


@pytest.mark.parametrize(
    ("space", "actions", "message"),
    [
        (gym.spaces.Discrete(3, start=5), [5, 8], "whole numbers from 5 to 7, got 8"),
        (gym.spaces.Discrete(3), [0.5], "whole numbers from 0 to 2, got 0.5"),
        (gym.spaces.MultiDiscrete([3, 2]), [[1, 1], [1, 2]], "whole numbers from 0 to 1, got 2"),
        (gym.spaces.MultiDiscrete([3, 2]), [[1]], "1 numbers a step, the environment's have 2"),
        (gym.spaces.MultiBinary(2), [[-1, 0]], "whole numbers from 0 to 1, got -1"),
    ],
)
def test_choices_that_there_are_not_are_refused(space, actions, message):
    with pytest.raises(BadEnvironment, match=message):
        from_native(action_spec(space), np.array(actions))


def test_dict_and_tuple_observations_are_flattened():
    space = gym.spaces.Dict({
        "a": gym.spaces.Box(-1, 1, (2, 2), np.float64),
        "b": gym.spaces.Tuple([gym.spaces.Discrete(3), gym.spaces.Box(-1, 1, (1,), np.float32)]),
    })  # fmt: skip
    value = {"a": np.arange(4.0).reshape(2, 2), "b": (2, np.array([7.0], np.float32))}
    with environments(observation_space=space, observe=lambda time: value) as envs:
        np.testing.assert_array_equal(envs.reset([0, 1])[0], [0, 1, 2, 3, 0, 0, 1, 7])


@pytest.mark.parametrize(
    ("info", "options", "expected"),
    [
        ({"cost": 2}, {}, [2.0]),
        ({"costs": [1, 2]}, {"num_costs": 2}, [1.0, 2.0]),
        ({"costs": {"heat": 1, "wear": 2}}, {"num_costs": 2}, [1.0, 2.0]),
        ({"heat": 3, "wear": 4, "cost": 9}, {"num_costs": 2, "cost_keys": ("wear", "heat")}, [4.0, 3.0]),
        ({}, {"cost_required": False}, [0.0]),
    ],
)
def test_where_costs_are_found(info, options, expected):
    with environments(result=lambda obs, over: (obs, 0.0, over, False, info), **options) as envs:
        envs.reset([0, 1])
        np.testing.assert_array_equal(envs.step(np.zeros((2, 1))).costs[0], expected)


def test_six_values_of_step():
    with environments(result=lambda obs, over: (obs, 1.0, 4.0, over, False, {})) as envs:
        envs.reset([0, 1])
        np.testing.assert_array_equal(envs.step(np.zeros((2, 1))).costs, [[4.0], [4.0]])


def test_processes_give_what_one_process_gives():
    def rollout(processes):
        with Environments(Bandit, 2, processes=processes, episode_length=10) as envs:
            seen = [envs.reset([3, 4])]
            for time in range(12):
                step = envs.step(np.full((2, 1), time / 12))
                seen += [step.obs, step.next_obs, step.reward, step.costs]
            return seen

    for a, b in zip(rollout(False), rollout(True), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"result": lambda obs, over: (obs, 0.0, over, False, {"heat": 1})}, r"gives no cost.*\['heat'\].*cost_keys"),
        ({"cost_keys": ("heat",)}, r"no info\['heat'\].*\['cost'\]"),
        ({"num_costs": 2}, "gives 1 costs but there are 2 limits"),
        ({"observe": lambda time: np.zeros(4, np.float32)}, r"observation space.*\(3,\).*got \(4,\)"),
        ({"observe": lambda time: np.array(["a", "b", "c"])}, "must hold numbers"),
        ({"result": lambda obs, over: (obs, 0.0, over, {})}, r"terminated, truncated, info\), got 4 values"),
        ({"result": lambda obs, over: (obs, np.zeros(2), over, False, {"cost": 0})}, "number as reward, got ndarray"),
        ({"result": lambda obs, over: (obs, 0.0, over, False, {"cost": {"heat": 1}})}, "cost, got dict.*cost_keys"),
        ({"action_space": gym.spaces.Box(-np.inf, np.inf, (1,))}, "no bounds.*RescaleAction"),
        ({"action_space": gym.spaces.Dict(a=gym.spaces.Discrete(2))}, r"actions in Dict.* not supported; Box"),
        ({"episode_length": None}, "no time limit; set episode_length"),
        ({"observation_space": gym.spaces.Discrete(3), "observe": lambda time: 3}, "integer from 0 to 2, got int 3"),
        ({"observation_space": gym.spaces.Discrete(3), "observe": lambda time: -1}, "integer from 0 to 2, got int -1"),
    ],
)  # fmt: skip
def test_what_is_wrong_shows_before_any_training(arguments, message):
    with pytest.raises(BadEnvironment, match=message):
        environments(**arguments)


@pytest.mark.parametrize(
    ("what", "observe", "result"),
    [
        ("observation", lambda time: np.full(3, np.nan if time == 3 else 0, np.float32), None),
        ("reward", None, lambda obs, over: (obs, np.inf if obs[0] == 3 else 0.0, over, False, {"cost": 0.0})),
        ("cost", None, lambda obs, over: (obs, 0.0, over, False, {"cost": np.nan if obs[0] == 3 else 0.0})),
    ],
)
def test_non_finite_values_are_named_with_their_step(what, observe, result):
    with environments(observe=observe, result=result) as envs:
        envs.reset([0, 1])
        envs.step(np.zeros((2, 1)))
        envs.step(np.zeros((2, 1)))
        with pytest.raises(BadEnvironment, match=f"non-finite {what}.*environment 0 of 2 at step 3"):
            envs.step(np.zeros((2, 1)))


def test_a_reset_without_info_is_named():
    class Old(Custom):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)[0]

    with pytest.raises(BadEnvironment, match=r"reset of Old must return \(observation, info\).*got ndarray"):
        Environments(Old, 1, episode_length=10)


def test_what_wrappers_of_gymnasium_say_of_the_first_step_names_the_environment():
    gym.register("Old-v0", lambda: Custom(result=lambda obs, over: (obs, 0.0, over, {})), max_episode_steps=10)
    with pytest.raises(BadEnvironment, match="Old-v0 fails in its first reset and step: not enough values"):
        Environments("Old-v0", 1)


def test_an_environment_itself_is_no_source():
    with pytest.raises(BadEnvironment, match=r"a callable that makes it, as several are needed; got Custom"):
        Environments(Custom(), 1, episode_length=10)


def test_what_gymnasium_says_of_an_environment_that_cannot_be_made_is_passed_on():
    def missing():
        raise gym.error.DependencyNotInstalled("pip install the-simulator")

    gym.register("Missing-v0", missing, max_episode_steps=10)
    with pytest.raises(BadEnvironment, match="cannot make Missing-v0: pip install the-simulator"):
        Environments("Missing-v0", 1)


def test_unknown_names_come_with_the_nearest():
    with pytest.raises(BadEnvironment, match=r"Piont-Goal.*'Point-Goal'"):
        Environments("Piont-Goal", 1)


def test_a_gymnasium_id_works():
    with Environments("Pendulum-v1", 2, cost_required=False) as envs:
        assert (envs.obs_size, envs.action_size, envs.episode_length) == (3, 1, 200)
    with Environments(Menu, 2, episode_length=10) as envs:
        assert envs.discrete


def test_a_time_limit_that_only_the_spec_states_is_kept():
    def make():
        env = Custom(end=100)
        env.spec = gym.envs.registration.EnvSpec("Custom-v0", max_episode_steps=7)
        return env

    with Environments(make, 1) as envs:
        envs.reset([0])
        assert [envs.step(np.zeros((1, 1))).ended[0] for _ in range(7)] == [False] * 6 + [True]
    with Environments(lambda: gym.make("cvpo/PointGoal-v0", layout="random"), 1) as envs:
        assert envs.episode_length == 400


def test_a_builtin_task_by_name_and_by_id_is_the_same():
    rewards = []
    for source in ("Car-Circle", "cvpo/CarCircle-v0"):
        with Environments(source, 2) as envs:
            envs.reset([1, 2])
            rewards.append(np.stack([envs.step(np.full((2, 2), 0.5)).reward for _ in range(5)]))
    np.testing.assert_array_equal(*rewards)
