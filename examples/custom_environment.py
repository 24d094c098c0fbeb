"""Your own environment: any Gymnasium environment that puts a cost in info["cost"].

A car drives along a straight road. It earns the distance it covers, and each step above the speed limit costs 1. It is
trained twice: once allowed to speed in 5 of 50 steps, once without a limit that binds.
"""

import tempfile

import gymnasium as gym
import numpy as np

import cvpo


class Road(gym.Env):
    observation_space = gym.spaces.Box(0.0, 2.0, (1,), np.float32)  # speed
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)  # brake or accelerate

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.speed = self.np_random.uniform(0.0, 0.5)
        return np.array([self.speed], np.float32), {}

    def step(self, action):
        self.speed = float(np.clip(self.speed + 0.2 * action[0], 0.0, 2.0))
        info = {"cost": float(self.speed > 1.0)}
        return np.array([self.speed], np.float32), self.speed, False, False, info


def main(steps: int = 20_000) -> None:
    settings = {"episode_length": 50, "hidden": (64, 64), "batch_size": 128, "envs": 10, "particles": 16}
    with tempfile.TemporaryDirectory() as directory:
        for limit in (5.0, 50.0):
            run_dir = f"{directory}/limit-{limit:g}"
            run = cvpo.train(Road, steps=steps, cost_limit=limit, run_dir=run_dir, config=settings, quiet=True)
            last = run.metrics()[-8:]
            reward = np.mean([epoch["train/reward"] for epoch in last])
            cost = np.mean([epoch["train/cost"] for epoch in last])
            print(f"limit {limit:4.0f}: reward {reward:5.1f}, cost {cost:4.1f}")


if __name__ == "__main__":
    main()
