"""Environments for tests of worker processes: tiny, and troublesome when told to."""

import os
import signal
import sys
import time

import gymnasium as gym
import numpy as np


class Trouble(gym.Env):
    """Counts steps; does `what` at step 3 of environment `where`, known by its seed."""

    def __init__(self, what="", where=0):
        self.observation_space = gym.spaces.Dict(
            count=gym.spaces.Box(0, 100, (2,), np.float32), parity=gym.spaces.Discrete(2)
        )
        self.action_space = gym.spaces.Box(-2, 2, (1,), np.float32)
        self._what, self._where, self._time, self._seed = what, where, 0, None

    def _look(self):
        return {"count": np.full(2, self._time, np.float32), "parity": self._time % 2}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._seed = seed if seed is not None else self._seed
        self._time = 0
        return self._look(), {}

    def step(self, action):
        self._time += 1
        if self._time == 3 and self._seed == self._where and self._what:
            getattr(self, "_" + self._what)()
        return self._look(), float(action[0]), self._time == 5, False, {"cost": 0.5}

    def _kill(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def _leave(self):
        os._exit(7)

    def _exit(self):
        sys.exit("goodbye")

    def _raise(self):
        raise ArithmeticError("simulator exploded")

    def _sleep(self):
        time.sleep(60)

    def _print(self):
        print("x" * 100_000)
        os.write(1, b"m\x00\x00 not a message")
        sys.stderr.write("y" * 100_000)
