"""What a step costs beyond the environment itself when the copies run in worker processes.

    python benchmarks/worker_overhead.py [--python OTHER_INTERPRETER]

An environment that takes a known time is stepped in this process, in workers, and by Gymnasium's AsyncVectorEnv. With N
copies on c cores the environment itself takes ceil(N / c) times its own time; what is above that is overhead.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np

from cvpo.envs.adapter import Environments
from cvpo.envs.sources import EnvSource, remote

HERE = Path(__file__).parent


def median_seconds(step: Callable[[], object], steps: int) -> float:
    """Of a step, over blocks of 100."""
    blocks = []
    for _ in range(steps // 100):
        began = time.perf_counter()
        for _ in range(100):
            step()
        blocks.append((time.perf_counter() - began) / 100)
    return statistics.median(blocks)


def seconds_per_step(source: EnvSource, copies: int, steps: int, **options: object) -> float:
    with Environments(source, copies, **options) as environments:  # type: ignore[arg-type]
        environments.reset(range(copies))
        action = np.zeros((copies, environments.action_size), np.float32)
        return median_seconds(lambda: environments.step(action), steps)


def gymnasium_seconds(make: partial[gym.Env], copies: int, steps: int) -> float:
    with closing(gym.vector.AsyncVectorEnv([make] * copies, context="spawn")) as environments:
        environments.reset(seed=0)
        action = np.zeros(environments.action_space.shape, np.float32)
        return median_seconds(lambda: environments.step(action), steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--python", help="another interpreter with NumPy and gym or gymnasium")
    options = parser.parse_args()
    from busy_env import Busy

    cores = len(os.sched_getaffinity(0))
    print(f"{options.copies} copies on {cores} cores; microseconds for a step of all copies\n")
    print(f"{'environment':>12}{'ideal':>8} {'workers':>8} {'overhead':>9} {'AsyncVectorEnv':>15} {'other python':>13}")
    for microseconds in (0, 100, 1000):
        make = partial(Busy, microseconds)
        alone = seconds_per_step(make, 1, options.steps // 2, episode_length=1000)
        ideal = alone * math.ceil(options.copies / cores)
        workers = seconds_per_step(make, options.copies, options.steps, episode_length=1000, processes=True)
        theirs = gymnasium_seconds(make, options.copies, options.steps)
        line = f"{microseconds:>12} {1e6 * ideal:>8.0f} {1e6 * workers:>8.0f} {1e6 * (workers - ideal):>9.0f}"
        line += f" {1e6 * theirs:>15.0f}"
        if options.python:
            os.environ["PYTHONPATH"] = str(HERE)
            source = remote("busy_env:Busy", python=options.python, microseconds=microseconds)
            line += f" {1e6 * seconds_per_step(source, options.copies, options.steps, episode_length=1000):>13.0f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
