"""Small constrained problems whose optimum is known."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Rounds(gym.Env):
    """Independent rounds: each toy says in `_look()` what is seen of one, and `_time` counts them."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._look(), {}


class Bandit(Rounds):
    """Ten independent rounds: reward sum(a), cost of component i (a_i + 1) / 2, in info["cost"] or info["costs"].

    Within limits 10·c_i the best action is a_i = 2 c_i - 1, with a reward of 10·sum(2 c_i - 1).
    """

    def __init__(self, size: int = 1) -> None:
        self.observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (size,), np.float32)
        self._time = 0

    def _look(self) -> np.ndarray:
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)

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


class Tracking(gym.Env):
    """Follow a signal s, uniform in [-1, 1] and new at every step, while actions cost their size.

    Reward 1 - (a - s)², cost a². The best policy with multiplier λ is a = s / (1 + λ): its cost is 1 / (3 (1 + λ)²) a
    step and its reward 1 - λ² / (3 (1 + λ)²). An episode of 20 steps costs 20/3 without a limit; with the limit 20/12
    the multiplier is 1 and the best reward 20 (1 - 1/12).
    """

    LENGTH = 20
    LIMIT = LENGTH / 12
    BEST_REWARD = LENGTH * (1 - 1 / 12)

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self._steps = 0
        return self._draw(), {}

    def step(self, action: np.ndarray):
        reward, cost = 1 - float((action[0] - self._signal) ** 2), float(action[0] ** 2)
        self._steps += 1
        return self._draw(), reward, False, self._steps == self.LENGTH, {"cost": cost}

    def _draw(self) -> np.ndarray:
        self._signal = self.np_random.uniform(-1.0, 1.0)
        return np.array([self._signal], np.float32)


class Bets(Rounds):
    """Twenty independent rounds: an edge s, uniform in [-1, 1], is seen; a bet a earns s·a and costs a².

    Within a limit of 20·c (c <= 1/3) the best bet is a = s·√(3c), with an expected reward of 20·√(c/3). Without a limit
    it is the sign of s, with an expected reward of 10 and a cost of 20.
    """

    LENGTH = 20
    LIMIT = LENGTH / 12
    BEST_REWARD = LENGTH / 6

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self._edge = np.zeros(1, np.float32)
        self._time = 0

    def _look(self) -> np.ndarray:
        self._edge = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self._edge

    def step(self, action):
        self._time += 1
        bet = float(action[0])
        reward = float(self._edge[0]) * bet
        return self._look(), reward, False, self._time == self.LENGTH, {"cost": bet**2}


class Desk(Rounds):
    """Ten independent rounds with two choices at once: a pace, and one of two levers, of which a light shows the right.

    Paces earn 0, 1, 3 and cost 0, 0.1, 1; the right lever earns 1. Pace 1 earns most per cost, so within a limit of 1
    the best policy takes it always, with the right lever: reward 20. Without a limit it is pace 2: reward 40.
    """

    PACE_REWARD, PACE_COST = (0.0, 1.0, 3.0), (0.0, 0.1, 1.0)
    LIMIT, BEST_REWARD, MOST_REWARD = 1.0, 20.0, 40.0

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = gym.spaces.MultiDiscrete([3, 2])
        self._time = 0

    def _look(self) -> np.ndarray:
        self._light = int(self.np_random.integers(2))
        return np.array([2.0 * self._light - 1], np.float32)

    def step(self, action):
        self._time += 1
        pace, lever = action
        reward = self.PACE_REWARD[pace] + float(lever == self._light)
        return self._look(), reward, False, self._time == 10, {"cost": self.PACE_COST[pace]}


class Gauge(Tracking):
    """Tracking whose signal is seen in an image: how far right a bright line is. It has twelve values.

    With their mean square M and the limit 20 M / 4 the best policy is a = s / 2, with a reward of 20 (1 - M / 4). In
    parts, the image shows the signal's size alone, and a number beside it the sign.
    """

    SIDE = 12

    def __init__(self, in_parts: bool = False) -> None:
        self._in_parts = in_parts
        self._values = np.linspace(0 if in_parts else -1, 1, self.SIDE)
        mean_square = float((self._values**2).mean())
        self.limit, self.best_reward = 20 * mean_square / 4, 20 * (1 - mean_square / 4)
        self.blind_reward = 20 * (1 - mean_square)  # of always 0, the best action without a look at the image
        image = gym.spaces.Box(0, 255, (self.SIDE, self.SIDE, 1), np.uint8)
        sign = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.observation_space = gym.spaces.Dict(image=image, sign=sign) if in_parts else image

    def _draw(self) -> Any:
        column = int(self.np_random.integers(self.SIDE))
        sign = float(self.np_random.choice([-1.0, 1.0])) if self._in_parts else 1.0
        self._signal = sign * self._values[column]
        image = np.zeros((self.SIDE, self.SIDE, 1), np.uint8)
        image[:, column] = 255
        return {"image": image, "sign": np.array([sign], np.float32)} if self._in_parts else image
