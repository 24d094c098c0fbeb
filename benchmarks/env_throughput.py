"""How fast the built-in tasks step, with random actions and resets, and how much of the time is not physics.

    taskset -c 0 python benchmarks/env_throughput.py            one core
    python benchmarks/env_throughput.py                         and what a second thread brings
    python benchmarks/env_throughput.py --tasks velocity        a group, or single tasks by name

Each row is measured in turns of 100 steps, those of its contenders in between. "steps/s" is the median turn, "best" the
fastest, which other work on the machine disturbs least. "physics/s" counts the time inside MuJoCo alone, in the same
turns. "plain loop" is how many times as fast as a Python loop of `mujoco.mj_step` the task is: over the same model,
with as many sub-steps, one environment after another, without observations, rewards or resets. "gymnasium" is the same
against a loop over the installed Gymnasium's own environment (velocity tasks). "longest" is the longest step against
the median: a reset of all environments at once, if the turns reach the end of an episode. On a machine that others use,
--cpu-time counts the thread's own processor time instead of the clock's (and tries no second thread).
"""

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import gymnasium
import mujoco
import numpy as np

from cvpo.tasks import TASKS
from cvpo.tasks.runners import Runner
from cvpo.tasks.vector_env import TaskVectorEnv

_TURN = 100
Clock = Callable[[], float]


@dataclass
class Meter:
    """Steps something in turns; remembers each turn's seconds."""

    clock: Clock
    turns: list[float] = field(default_factory=list)

    def turn(self) -> None:
        start = self.clock()
        self.run()
        self.turns.append(self.clock() - start)

    def run(self) -> None:
        raise NotImplementedError


class Native(Meter):
    """One vector environment; also the seconds inside the physics, and of each step."""

    def __init__(self, task: str, num_envs: int, threads: int, clock: Clock):
        super().__init__(clock)
        self.env = TaskVectorEnv(task, num_envs, threads=threads)
        self.env.reset(seed=0)
        self._rng = np.random.default_rng(0)
        self._in_physics = 0.0
        self.physics: list[float] = []
        self.steps: list[float] = []
        pool = self.env.world.physics._pool
        pool.rollout = self._timed(pool.rollout)
        watched = getattr(self.env.world, "_last_substep", None)
        if watched and self.env.world._watched:
            self.env.world._last_substep = self._timed(watched)

    def _timed(self, function: Callable) -> Callable:
        def timed(*args, **kwargs):
            start = self.clock()
            result = function(*args, **kwargs)
            self._in_physics += self.clock() - start
            return result

        return timed

    def run(self) -> None:
        low, high = self.env.world.action_range
        self._in_physics = 0.0
        for action in self._rng.uniform(low, high, (_TURN, self.env.num_envs, len(low))):
            start = self.clock()
            self.env.step(action)
            self.steps.append(self.clock() - start)
        self.physics.append(self._in_physics)


class PlainLoop(Meter):
    """`mj_step` in a Python loop over as many simulations, from the native environment's states."""

    def __init__(self, native: Native, clock: Clock):
        super().__init__(clock)
        physics, self._rng = native.env.world.physics, np.random.default_rng(1)
        self._model = physics.model
        self._substeps = round(native.env.world.step_seconds / self._model.opt.timestep)
        self._data = [mujoco.MjData(self._model) for _ in range(native.env.num_envs)]
        for env, data in enumerate(self._data):
            physics.load(env, data)
        self._range = native.env.world.action_range

    def run(self) -> None:
        low, high = self._range
        for actions in self._rng.uniform(low, high, (_TURN, len(self._data), len(low))):
            for data, action in zip(self._data, actions, strict=True):
                data.ctrl[: len(action)] = action
                mujoco.mj_step(self._model, data, self._substeps)


class GymnasiumLoop(Meter):
    """The installed Gymnasium's environment of the same robot, in a Python loop with resets."""

    def __init__(self, robot: str, num_envs: int, clock: Clock):
        super().__init__(clock)
        self._envs = [gymnasium.make(f"{robot}-v5") for _ in range(num_envs)]
        for seed, env in enumerate(self._envs):
            env.reset(seed=seed)
        self._rng = np.random.default_rng(2)

    def run(self) -> None:
        space = self._envs[0].action_space
        for actions in self._rng.uniform(space.low, space.high, (_TURN, len(self._envs), len(space.low))):
            for env, action in zip(self._envs, actions, strict=True):
                _, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    env.reset()


def ratio(other: Meter | None, native: Native) -> str:
    """How many times as fast as the other the native environment is, by turns side by side."""
    return f"{np.median(np.array(other.turns) / np.array(native.turns)):.2f}" if other else "-"


def chosen(names: list[str]) -> list[str]:
    """The tasks of these names or groups."""
    tasks = [task for task in TASKS.values() if not names or task.name in names or task.group in names]
    if not tasks:
        raise SystemExit(f"no task or group in {names}; groups: {sorted({task.group for task in TASKS.values()})}")
    return [task.name for task in tasks]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=20, help="environments stepped together")
    parser.add_argument("--turns", type=int, default=24, help="turns of 100 steps for each row")
    parser.add_argument("--tasks", nargs="+", default=[], help="names or groups: paper, navigation, velocity")
    parser.add_argument("--cpu-time", action="store_true", help="count processor time")
    args = parser.parse_args()
    clock = time.thread_time if args.cpu_time else time.perf_counter

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    print(f"{args.envs} environments, {cores} core{'s' if cores > 1 else ''}")
    columns = ("steps/s", "best", "physics/s", "not physics", "plain loop", "gymnasium", "longest", "2 threads")
    print(f"{'task':<26}" + "".join(f"{column:>12}" for column in columns))
    for task in chosen(args.tasks):
        native = Native(task, args.envs, threads=1, clock=clock)
        plain = PlainLoop(native, clock)
        rules = TASKS[task].rules
        robot = task.removeprefix("Safety").removesuffix("Velocity")
        gym_loop = GymnasiumLoop(robot, args.envs, clock) if isinstance(rules, Runner) else None
        two = Native(task, args.envs, threads=2, clock=clock) if cores > 1 and not args.cpu_time else None
        for _ in range(args.turns):
            for meter in (native, plain, gym_loop, two):
                if meter:
                    meter.turn()
        turns, physics, steps = np.array(native.turns), np.array(native.physics), args.envs * _TURN
        longest = max(native.steps) / np.median(native.steps)
        threads = f"{np.median(turns / np.array(two.turns)):.2f}" if two else "-"
        row = (
            f"{steps / np.median(turns):.0f}", f"{steps / turns.min():.0f}", f"{steps / np.median(physics):.0f}",
            f"{np.median(1 - physics / turns):.0%}", ratio(plain, native), ratio(gym_loop, native), f"{longest:.0f}",
            threads,
        )  # fmt: skip
        print(f"{task:<26}" + "".join(f"{value:>12}" for value in row), flush=True)


if __name__ == "__main__":
    main()
