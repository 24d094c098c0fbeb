"""Discrete actions: the E-step weighs every choice, so it need not sample any.

A machine runs at one of four speeds. Each step earns its speed. Speed heats the machine, rest cools it, and every step
in which it is too hot costs 1. A good policy heats it exactly as often as the limit allows.
"""

import tempfile

import gymnasium as gym
import numpy as np

import cvpo

TOO_HOT = 1.0


class Machine(gym.Env):
    observation_space = gym.spaces.Box(0.0, 3.0, (1,), np.float32)  # temperature
    action_space = gym.spaces.Discrete(4)  # speed

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.heat = self.np_random.uniform(0.0, 0.5)
        return np.array([self.heat], np.float32), {}

    def step(self, action):
        self.heat = 0.8 * self.heat + 0.15 * int(action)
        info = {"cost": float(self.heat > TOO_HOT)}
        return np.array([self.heat], np.float32), float(action), False, False, info


def main(steps: int = 24_000) -> None:
    settings = {"episode_length": 40, "hidden": (64, 64), "batch_size": 128, "envs": 10}
    with tempfile.TemporaryDirectory() as directory:
        for limit in (4.0, 40.0):
            run_dir = f"{directory}/limit-{limit:g}"
            run = cvpo.train(Machine, steps=steps, cost_limit=limit, run_dir=run_dir, config=settings, quiet=True)
            last = run.metrics()[-10:]
            reward = np.mean([epoch["train/reward"] for epoch in last])
            cost = np.mean([epoch["train/cost"] for epoch in last])
            print(f"limit {limit:4.0f}: reward {reward:5.1f}, cost {cost:4.1f}")


if __name__ == "__main__":
    main()
