"""Tracking as in tests/toys.py, on gym 0.21: four values, a seed method, a reset that returns the observation alone."""

import gym
import numpy as np


class OldTracking(gym.Env):
    metadata = {"render.modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, fail_at=None):
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.fail_at = fail_at

    def seed(self, seed=None):
        self.generator = np.random.RandomState(seed)
        return [seed]

    def reset(self):
        print("a stray print")
        self.steps = 0
        return self._draw()

    def step(self, action):
        self.steps += 1
        if self.steps == self.fail_at:
            raise ArithmeticError("the old simulator exploded")
        reward, cost = 1 - float((action[0] - self.signal) ** 2), float(action[0] ** 2)
        return self._draw(), reward, False, {"cost": cost}

    def render(self, mode="human"):
        return np.full((4, 6, 3), self.steps, np.uint8)

    def _draw(self):
        self.signal = self.generator.uniform(-1.0, 1.0)
        return np.array([self.signal], np.float32)


gym.register("OldTracking-v0", entry_point=OldTracking, max_episode_steps=20)
