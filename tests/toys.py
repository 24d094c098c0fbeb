"""Small constrained problems whose optimum is known."""

from __future__ import annotations

import gymnasium as gym
import numpy as np


class Bandit(gym.Env):
    """Ten independent rounds: reward sum(a), cost of component i (a_i + 1) / 2, in info["cost"] or info["costs"].

    Within limits 10·c_i the best action is a_i = 2 c_i - 1, with a reward of 10·sum(2 c_i - 1).
    """

    def __init__(self, size: int = 1) -> None:
        self.observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (size,), np.float32)
        self._time = 0

    def _look(self) -> np.ndarray:
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._look(), {}

    def step(self, action):
        self._time += 1
        costs = (np.asarray(action) + 1) / 2
        info = {"cost": float(costs[0])} if len(costs) == 1 else {"costs": costs}
        return self._look(), float(np.sum(action)), False, self._time == 10, info


class Menu(gym.Env):
    """Ten independent rounds with three choices: rewards 0, 1.2, 2 and costs 0, 0.5, 1.

    Choice 1 earns most per cost, so within a limit of 2.5 the best policy picks it every other time: reward 6.
    """

    REWARD, COST = (0.0, 1.2, 2.0), (0.0, 0.5, 1.0)

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(3)
        self._time = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._time += 1
        return np.zeros(1, np.float32), self.REWARD[action], False, self._time == 10, {"cost": self.COST[action]}


class Stairs(gym.Env):
    """A machine with three speeds: choosing up, stay or down moves between them; a fast step earns more and wears more.

    Small enough that a linear program over its occupancy finds the best constrained policy.
    """

    SPEEDS, LENGTH = 3, 20
    REWARD, COST = (0.0, 1.0, 3.0), (0.0, 0.2, 1.0)

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Discrete(self.SPEEDS)
        self.action_space = gym.spaces.Discrete(3)
        self._speed = self._time = 0

    @classmethod
    def next_speed(cls, speed: int, action: int) -> int:
        return int(np.clip(speed + action - 1, 0, cls.SPEEDS - 1))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._speed = self._time = 0
        return 0, {}

    def step(self, action):
        self._speed = self.next_speed(self._speed, int(action))
        self._time += 1
        info = {"cost": self.COST[self._speed]}
        return self._speed, self.REWARD[self._speed], False, self._time == self.LENGTH, info
