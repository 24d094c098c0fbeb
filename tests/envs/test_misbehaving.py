"""Environments that misbehave, each in its own way: one clear line says what happened, where and what to do."""

import gymnasium as gym
import numpy as np
import pytest

from cvpo.envs.adapter import Environments
from cvpo.envs.errors import BadEnvironment
from cvpo.errors import UserError

BOX = gym.spaces.Box(-1, 1, (3,), np.float32)
ZERO = np.zeros(3, np.float32)


class Tiny(gym.Env):
    """Well-behaved, but for what is handed in: the values of the third step, or any other part."""

    def __init__(self, third=None, reset=None, observation_space=BOX, action_space=BOX, **parts):
        self.observation_space, self.action_space = observation_space, action_space
        self._third, self._reset, self._time = third, reset, 0
        for name, value in parts.items():
            setattr(self, name, value)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return (self.observation_space.sample() * 0, {}) if self._reset is None else self._reset()

    def step(self, action):
        self._time += 1
        values = (self.observation_space.sample() * 0, 0.0, False, False, {"cost": 0.0})
        return self._third(*values) if self._third and self._time == 3 else values


def swap(**changes):
    """Five values of a step, some of them others."""
    names = ("obs", "reward", "terminated", "truncated", "info")
    return lambda *values: tuple(changes.get(name, value) for name, value in zip(names, values, strict=True))


LATER = {
    "four values": (lambda obs, reward, terminated, truncated, info: (obs, reward, terminated, info), "got 4 values"),
    "three values": (lambda *values: values[:3], "got 3 values"),
    "seven values": (lambda *values: (*values, 1, 2), "got 7 values"),
    "no tuple": (lambda *values: 1.0, "must return .*, got float 1.0"),
    "None": (lambda *values: None, "must return .*, got NoneType"),
    "info None": (swap(info=None), "must return a dict as info, got NoneType"),
    "info a list": (swap(info=[1]), "must return a dict as info, got list"),
    "no cost": (swap(info={"heat": 1}), r"gives no cost: info has keys \['heat'\]"),
    "cost a text": (swap(info={"cost": "much"}), "a number for each cost, got str 'much'"),
    "cost None": (swap(info={"cost": None}), "non-finite cost, .nan.|a number for each cost"),
    "two costs": (swap(info={"costs": [1, 2]}), "gives 2 costs but there are 1 limits"),
    "costs a dict of texts": (swap(info={"costs": {"a": "b"}}), "a number for each cost"),
    "cost nan": (swap(info={"cost": np.nan}), "non-finite cost"),
    "cost infinite": (swap(info={"cost": np.inf}), "non-finite cost"),
    "reward nan": (swap(reward=np.nan), "non-finite reward, nan"),
    "reward infinite": (swap(reward=-np.inf), "non-finite reward, -inf"),
    "reward None": (swap(reward=None), "a number as reward, got NoneType"),
    "reward a text": (swap(reward="good"), "a number as reward, got str"),
    "reward a vector": (swap(reward=np.zeros(2)), "a number as reward, got ndarray"),
    "reward beyond float32": (swap(reward=1e300), "non-finite reward, inf"),
    "terminated a vector": (swap(terminated=np.zeros(2)), "true or false as terminated"),
    "observation nan": (swap(obs=np.full(3, np.nan)), "non-finite observation"),
    "observation infinite": (swap(obs=np.full(3, np.inf)), "non-finite observation"),
    "observation beyond float32": (swap(obs=np.full(3, 1e300)), "non-finite observation"),
    "observation too long": (swap(obs=np.zeros(4)), r"must have shape \(3,\), got \(4,\)"),
    "observation too deep": (swap(obs=np.zeros((1, 3))), r"must have shape \(3,\), got \(1, 3\)"),
    "observation empty": (swap(obs=np.zeros(0)), r"must have shape \(3,\), got \(0,\)"),
    "observation None": (swap(obs=None), "must hold numbers, got NoneType"),
    "observation of texts": (swap(obs=["a", "b", "c"]), "must hold numbers, got list"),
    "observation ragged": (swap(obs=[[1], [1, 2]]), "broke its observation space"),
    "observation complex": (swap(obs=np.zeros(3, complex)), "must hold numbers"),
    "observation a dict": (swap(obs={"a": ZERO}), "must hold numbers, got dict"),
}

AT_ONCE = {
    "reset without info": (lambda: Tiny(reset=lambda: ZERO), r"reset of Tiny must return \(observation, info\)"),
    "reset None": (lambda: Tiny(reset=lambda: None), "reset of Tiny must return"),
    "observations of size zero": (
        lambda: Tiny(observation_space=gym.spaces.Box(-1, 1, (0,))),
        "observations of Tiny hold no numbers",
    ),
    "observations in a text": (lambda: Tiny(observation_space=gym.spaces.Text(5)), "in Text.*not supported"),
    "no observation space": (lambda: Tiny(observation_space=None), "Tiny has no observation_space"),
    "no action space": (lambda: Tiny(action_space=None), "Tiny has no action_space"),
    "actions without bounds": (lambda: Tiny(action_space=gym.spaces.Box(-np.inf, np.inf, (1,))), "have no bounds"),
    "actions of size zero": (lambda: Tiny(action_space=gym.spaces.Box(-1, 1, (0,))), "actions hold no numbers"),
    "actions in a dict": (lambda: Tiny(action_space=gym.spaces.Dict(a=BOX)), "actions in Dict.*not supported"),
    "no environment": (lambda: 5, "must make a gymnasium.Env, got int"),
    "nothing": (lambda: None, "must make a gymnasium.Env, got NoneType"),
}  # fmt: skip


@pytest.mark.parametrize("case", LATER)
def test_what_breaks_later_is_named_with_its_environment_and_step(case):
    third, message = LATER[case]
    with Environments(lambda: Tiny(third), 2, episode_length=10) as envs:
        envs.reset([0, 1])
        envs.step(np.zeros((2, 3)))
        envs.step(np.zeros((2, 3)))
        with pytest.raises(BadEnvironment, match=message) as caught:
            envs.step(np.zeros((2, 3)))
    text = str(caught.value)
    assert "Tiny" in text and "environment 0 of 2" in text and "step 3" in text
    assert "\n" not in text and len(text) < 400


@pytest.mark.parametrize("case", AT_ONCE)
def test_what_is_wrong_from_the_start_is_named_before_any_training(case):
    make, message = AT_ONCE[case]
    with pytest.raises(BadEnvironment, match=message) as caught:
        Environments(make, 2, episode_length=10)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_copies_that_differ_are_told():
    sizes = iter([3, 4])

    def make():
        return Tiny(observation_space=gym.spaces.Box(-1, 1, (next(sizes),)))

    with pytest.raises(BadEnvironment, match="copies of Tiny differ: observation of environment 0"):
        Environments(make, 2, episode_length=10)


def test_a_reset_that_takes_no_seed():
    class Deaf(Tiny):
        def reset(self):
            return ZERO, {}

    with pytest.raises(BadEnvironment, match=r"reset of Deaf takes no seed.*def reset"):
        Environments(Deaf, 1, episode_length=10)


def test_a_bug_in_the_environment_keeps_its_traceback_and_gets_its_place():
    def explode(*_):
        raise KeyError("simulator exploded")

    with Environments(lambda: Tiny(explode), 2, episode_length=10) as envs:
        envs.reset([0, 1])
        envs.step(np.zeros((2, 3)))
        envs.step(np.zeros((2, 3)))
        with pytest.raises(KeyError, match="simulator exploded") as caught:
            envs.step(np.zeros((2, 3)))
    assert not isinstance(caught.value, UserError)
    assert caught.traceback[-1].name == "explode"
    assert "Tiny, environment 0 of 2, at step 3 of its epoch" in caught.value.__notes__[0]


def test_a_bug_in_the_first_step_keeps_its_traceback():
    class Buggy(Tiny):
        def step(self, action):
            raise ValueError("off by one")

    with pytest.raises(ValueError, match="off by one") as caught:
        Environments(Buggy, 1, episode_length=10)
    assert not isinstance(caught.value, UserError) and caught.traceback[-1].name == "step"


def test_a_hint_after_a_while_names_the_environment_that_does_not_answer(monkeypatch, capsys):
    import time

    monkeypatch.setattr("cvpo.envs.hangs.HINT_SECONDS", 0.2)
    with Environments(lambda: Tiny(lambda *values: time.sleep(0.6) or values), 2, episode_length=10) as envs:
        envs.reset([0, 1])
        for _ in range(3):
            envs.step(np.zeros((2, 3)))
    said = capsys.readouterr().err
    assert said.count("has not answered") == 1  # once a step, whichever environment it waits for
    assert "Tiny, environment" in said and "at step 3 of its epoch" in said and "--env-timeout" in said


def test_a_time_limit_holds_in_this_process_too():
    import time

    hangs = {"until": time.monotonic() + 5}

    def hang(*values):
        while time.monotonic() < hangs["until"]:
            time.sleep(0.01)
        return values

    began = time.monotonic()
    with Environments(lambda: Tiny(hang), 2, episode_length=10, timeout=0.3) as envs:
        envs.reset([0, 1])
        envs.step(np.zeros((2, 3)))
        envs.step(np.zeros((2, 3)))
        with pytest.raises(UserError, match=r"Tiny, environment 0 of 2, at step 3 .* within 0.3 s.*--env-timeout"):
            envs.step(np.zeros((2, 3)))
    assert time.monotonic() - began < 4
    hangs["until"] = 0
