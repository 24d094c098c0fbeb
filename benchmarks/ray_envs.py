"""What more workers on a Ray cluster bring to an environment that is slow.

    python benchmarks/ray_envs.py [--address HOST:PORT] [--milliseconds 10]

Steps per second of one environment in this process, and of several as Ray actors. Without an address a cluster of
several nodes is started on this machine. The environment waits instead of computing: the CPUs of a real cluster are
elsewhere, and what is measured here is how much of the waiting goes on at the same time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np

from cvpo.envs.adapter import Environments


class Waiting(gym.Env):
    """Waits in every step for so long."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (60,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, milliseconds: float) -> None:
        self._seconds = milliseconds / 1000

    def reset(self, *, seed=None, options=None):  # type: ignore[no-untyped-def]
        super().reset(seed=seed)
        return np.zeros(60, np.float32), {}

    def step(self, action):  # type: ignore[no-untyped-def]
        time.sleep(self._seconds)
        return np.zeros(60, np.float32), 0.0, False, False, {"cost": 0.0}


def steps_per_second(milliseconds: float, workers: int, address: str | None, steps: int, blocks: int = 9) -> float:
    """Of all environments together: the median of several blocks of steps."""
    make = partial(Waiting, milliseconds)
    with Environments(make, workers, episode_length=10**6, ray=address) as environments:
        environments.reset(range(workers))
        action, seconds = np.zeros((workers, 2), np.float32), []
        for _ in range(blocks):
            began = time.perf_counter()
            for _ in range(steps):
                environments.step(action)
            seconds.append(time.perf_counter() - began)
    return workers * steps / statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", help="of a cluster; without it one is started here")
    parser.add_argument("--milliseconds", type=float, default=10.0)
    parser.add_argument("--steps", type=int, default=40, help="of each block")
    options = parser.parse_args()
    import ray

    cluster, address = None, options.address
    if address is None:
        from ray.cluster_utils import Cluster

        os.environ.setdefault("RAY_worker_niceness", "0")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        for _ in range(2):
            cluster.add_node(num_cpus=2)
        address = cluster.address
    ray.init(address=address, log_to_driver=False)
    here = steps_per_second(options.milliseconds, 1, None, options.steps)
    print(f"an environment of {options.milliseconds:g} ms a step: {here:.0f} steps/s in this process")
    one = 0.0
    for workers in (1, 2, 4, 8):
        rate = steps_per_second(options.milliseconds, workers, address, options.steps)
        one = one or rate
        print(
            f"{workers} on Ray: {rate:.0f} steps/s, {rate / one:.2f} times one on Ray, {rate / here:.2f} times one here"
        )
    ray.shutdown()
    if cluster is not None:
        cluster.shutdown()


if __name__ == "__main__":
    main()
