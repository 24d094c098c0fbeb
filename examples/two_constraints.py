"""Two constraints at once: info["costs"] holds one cost for each, cost_limit one limit for each.

A drone flies against a gusty wind. Thrust moves it forward and takes energy. Height shelters it from the wind and makes
noise. Each step costs the square of both, and each cost has a limit of its own.
"""

import tempfile

import gymnasium as gym
import numpy as np

import cvpo


class Drone(gym.Env):
    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)  # wind
    action_space = gym.spaces.Box(0.0, 1.0, (2,), np.float32)  # thrust, height

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.gust(), {}

    def step(self, action):
        thrust, height = np.clip(action, 0.0, 1.0)
        progress = thrust - float(self.wind[0]) * (1.0 - height)
        return self.gust(), float(progress), False, False, {"costs": [float(thrust**2), float(height**2)]}

    def gust(self):
        self.wind = self.np_random.uniform(0.0, 1.0, 1).astype(np.float32)
        return self.wind


def main(steps: int = 24_000) -> None:
    settings = {"episode_length": 20, "hidden": (64, 64), "batch_size": 128, "envs": 20}
    with tempfile.TemporaryDirectory() as directory:
        for limits in ((5.0, 2.0), (2.0, 5.0)):
            run_dir = f"{directory}/{limits}"
            run = cvpo.train(Drone, steps=steps, cost_limit=limits, run_dir=run_dir, config=settings, quiet=True)
            result = cvpo.evaluate(run.policy(), Drone, episodes=50)
            energy, noise = result["cost"]
            print(
                f"limits {limits[0]:4.0f} and {limits[1]:4.0f}: reward {result['reward']:5.1f}, "
                f"energy {energy:4.1f}, noise {noise:4.1f}"
            )


if __name__ == "__main__":
    main()
