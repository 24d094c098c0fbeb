"""How fast the built-in tasks step, with random actions and resets, and how much of the time is not physics.

    taskset -c 0 python benchmarks/env_throughput.py       one core
    python benchmarks/env_throughput.py                     and what a second thread brings

Each row is measured in turns of 100 steps. "steps/s" is the median turn, "best" the fastest, which other work on the
machine disturbs least. "physics/s" counts the time inside mujoco.rollout alone, in the same turns. On a machine that
others use, --cpu-time counts the thread's own processor time instead of the clock's (and tries no second thread).
"""

import argparse
import os
import time
from collections.abc import Callable

import numpy as np

from cvpo.tasks import TASKS
from cvpo.tasks.vector_env import TaskVectorEnv

_TURN = 100


class Meter:
    """Steps one vector environment in turns; remembers each turn's seconds, and those inside the physics."""

    def __init__(self, task: str, num_envs: int, threads: int, clock: Callable[[], float]):
        self.env = TaskVectorEnv(task, num_envs, threads=threads)
        self.env.reset(seed=0)
        self._rng = np.random.default_rng(0)
        self._clock, self._in_physics = clock, 0.0
        self.turns: list[float] = []
        self.physics: list[float] = []
        rollout = self.env.world.physics._rollout.rollout

        def timed(*args, **kwargs):
            start = clock()
            result = rollout(*args, **kwargs)
            self._in_physics += clock() - start
            return result

        self.env.world.physics._rollout.rollout = timed

    def turn(self) -> None:
        actions = self._rng.uniform(-1, 1, (_TURN, self.env.num_envs, 2))
        self._in_physics, start = 0.0, self._clock()
        for action in actions:
            self.env.step(action)
        self.turns.append(self._clock() - start)
        self.physics.append(self._in_physics)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=20, help="environments stepped together")
    parser.add_argument("--turns", type=int, default=24, help="turns of 100 steps for each row")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--cpu-time", action="store_true", help="count processor time")
    args = parser.parse_args()
    clock = time.thread_time if args.cpu_time else time.perf_counter

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    print(f"{args.envs} environments, {cores} core{'s' if cores > 1 else ''}")
    print(f"{'task':<14}{'steps/s':>9}{'best':>9}{'physics/s':>11}{'not physics':>13}{'2 threads':>11}")
    for task in args.tasks:
        one = Meter(task, args.envs, threads=1, clock=clock)
        two = Meter(task, args.envs, threads=2, clock=clock) if cores > 1 and not args.cpu_time else None
        for _ in range(args.turns):
            one.turn()
            if two:
                two.turn()
        turns, physics = np.array(one.turns), np.array(one.physics)
        steps = args.envs * _TURN
        ratio = f"{np.median(turns / np.array(two.turns)):.2f}x" if two else "-"
        print(
            f"{task:<14}{steps / np.median(turns):>9.0f}{steps / turns.min():>9.0f}"
            f"{steps / np.median(physics):>11.0f}{np.median(1 - physics / turns):>13.0%}{ratio:>11}",
            flush=True,
        )


if __name__ == "__main__":
    main()
