"""An environment whose step takes a given time, for `worker_overhead.py`; gymnasium of any age will do."""

import time

import gymnasium as gym
import numpy as np


class Busy(gym.Env):
    def __init__(self, microseconds):
        self.observation_space = gym.spaces.Box(-1, 1, (60,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self._seconds, self._obs = 1e-6 * microseconds, np.zeros(60, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._obs, {}

    def step(self, action):
        end = time.perf_counter() + self._seconds
        while time.perf_counter() < end:
            pass
        return self._obs, 0.0, False, False, {"cost": 0.0}
