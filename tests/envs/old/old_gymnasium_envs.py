"""Tracking as in tests/toys.py, on gymnasium 0.28: registered with five values; and with six by a `make` of its own."""

import gymnasium as gym
import numpy as np


class Tracking28(gym.Env):
    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space = gym.spaces.Dict(signal=gym.spaces.Box(-1.0, 1.0, (1,), np.float32), bit=gym.spaces.Discrete(2))
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, render_mode=None, values=5, end=99):
        self.render_mode, self.values, self.end = render_mode, values, end

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._draw(), {}

    def step(self, action):
        self.steps += 1
        reward, cost = 1 - float((action[0] - self.signal) ** 2), float(action[0] ** 2)
        obs, terminated = self._draw(), self.steps >= self.end
        if self.values == 6:
            return obs, reward, cost, terminated, self.steps >= 20, {}
        return obs, reward, terminated, False, {"cost": cost}

    def render(self):
        return np.full((4, 6, 3), self.steps, np.uint8)

    def _draw(self):
        self.signal = self.np_random.uniform(-1.0, 1.0)
        return {"signal": np.array([self.signal], np.float32), "bit": int(self.signal > 0)}


def make(name, **kwargs):
    """As safety_gymnasium has it: a maker of its own, for an environment with six values."""
    return Tracking28(values=6, **kwargs) if name == "SixValues-v0" else gym.make(name, **kwargs)


gym.register("Tracking28-v0", entry_point=Tracking28, max_episode_steps=20)
