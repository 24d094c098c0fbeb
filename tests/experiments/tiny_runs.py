"""Runs of seconds: toy environments, which get their ids when this module is imported, and small learners."""

import os
import resource
import time
from pathlib import Path

import gymnasium as gym
from toys import Bandit

from cvpo.experiments import RunSpec

WORKER_PATH = os.pathsep.join(map(str, Path(__file__).parents[:2]))  # where workers find this module and the toys
EPOCH = 20  # steps: two environments with ten rounds each
SETTINGS = {"envs": 2, "hidden": [4], "eval_episodes": 1}


class SlowBandit(Bandit):
    """A bandit that gives a test the time to act between two epochs."""

    def step(self, action):
        time.sleep(0.01)
        return super().step(action)


class BrokenBandit(Bandit):
    """A bandit whose second round fails."""

    def step(self, action):
        if self._time:
            raise ValueError("this machine is out of order")
        return super().step(action)


class HangingBandit(Bandit):
    """A bandit whose second round never ends, whatever signal comes; the file named by HANGS appears then."""

    def step(self, action):
        while self._time:
            Path(os.environ["HANGS"]).touch()
            time.sleep(1)
        return super().step(action)


class DiskFullBandit(Bandit):
    """A bandit in whose process no file grows any more, as on a full disk."""

    def step(self, action):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        return super().step(action)


gym.register("HangingBandit-v0", HangingBandit, max_episode_steps=10)
gym.register("DiskFullBandit-v0", DiskFullBandit, max_episode_steps=10)
gym.register("TinyBandit-v0", Bandit, max_episode_steps=10)
gym.register("SlowBandit-v0", SlowBandit, max_episode_steps=10)
gym.register("BrokenBandit-v0", BrokenBandit, max_episode_steps=10)


def tiny(env="TinyBandit", seed=0, epochs=2, **options):
    options = {"algorithm": "ppo-lag", "cost_limit": (3.0,), "config": SETTINGS} | options
    return RunSpec(env=f"tiny_runs:{env}-v0", steps=epochs * EPOCH, seed=seed, **options)
