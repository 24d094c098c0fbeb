"""Two settings side by side on named sets of environments and seeds: reward at cost, violations, entropy.

    python benchmarks/learning.py small                                  # the defaults against themselves
    python benchmarks/learning.py small --b kl_mean=0.05 kl_scale=0.003  # what does a wider trust region change?
    python benchmarks/learning.py pendulum --a algorithm=sac-lag --b algorithm=cvpo --seeds 0 1 2 3 4

Runs of both settings share cores, seeds and episodes' randomness. A line of the table is one environment: means over
seeds of the last fifth of training, evaluated without noise, all cost spent in training, the policy's entropy; then
B - A with its standard error over seeds. "small" takes under 30 minutes on two cores. One seed decides nothing.
"""

from __future__ import annotations

import argparse
import ast
import math
import multiprocessing
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

SINGLE_THREADED = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}


class Torque(gym.Wrapper):
    """Pendulum-v1 with a cost of 1 wherever the torque is beyond half of what the motor can give."""

    def __init__(self) -> None:
        super().__init__(gym.make("Pendulum-v1"))

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated, info | {"cost": float(abs(action[0]) > 1.0)}


class Velocity(gym.Wrapper):
    """A MuJoCo robot of Gymnasium with a cost of 1 in each step faster than `fastest`, in m/s."""

    def __init__(self, name: str, fastest: float) -> None:
        super().__init__(gym.make(name))
        self._fastest = fastest

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated, info | {"cost": float(info["x_velocity"] > self._fastest)}


def half_cheetah() -> gym.Env:
    return Velocity("HalfCheetah-v5", 3.2096)


def hopper() -> gym.Env:
    return Velocity("Hopper-v5", 0.7402)


def random_goal() -> gym.Env:
    import cvpo  # noqa: F401  registers the tasks

    return gym.make("cvpo/PointGoal-v0", layout="random")


class Problem(NamedTuple):
    env: str | Callable[[], gym.Env]
    limit: float | None  # None: the task's own
    steps: int


PROBLEMS: dict[str, Problem] = {
    "Pendulum, torque": Problem(Torque, 10.0, 40_000),
    "Pendulum, free": Problem(Torque, math.inf, 10_000),
    "Point-Goal": Problem("Point-Goal", None, 60_000),
    "Car-Circle": Problem("Car-Circle", None, 100_000),
    "Car-Goal": Problem("Car-Goal", None, 150_000),
    "Point-Button": Problem("Point-Button", None, 100_000),
    "Car-Button": Problem("Car-Button", None, 150_000),
    "HalfCheetah, velocity": Problem(half_cheetah, 25.0, 150_000),
    "Hopper, velocity": Problem(hopper, 25.0, 300_000),
    "Point-Goal, random layout": Problem(random_goal, 10.0, 600_000),
}
SETS: dict[str, tuple[str, ...]] = {
    "pendulum": ("Pendulum, torque", "Pendulum, free"),
    "small": ("Pendulum, torque", "Point-Goal"),
    "tasks": ("Car-Circle", "Point-Goal", "Car-Goal", "Point-Button", "Car-Button"),
    "velocity": ("HalfCheetah, velocity", "Hopper, velocity"),
    "random": ("Point-Goal, random layout",),
}
COLUMNS = ("reward", "cost", "cost Q3", "spent", "entropy", "seconds")


def run(problem: str, steps: int, settings: dict[str, Any], seed: int, directory: str) -> dict[str, float]:
    """One run, in a process of its own: what the table needs of it."""
    import cvpo

    env, limit, _ = PROBLEMS[problem]
    config = dict(settings)
    algorithm = config.pop("algorithm", "cvpo")
    made = cvpo.train(
        env, algorithm, steps=steps, seed=seed, cost_limit=limit, run_dir=directory, config=config, quiet=True
    )
    lines = made.metrics()
    last = lines[-1]
    late = [line for line in lines if line["steps"] > 0.8 * last["steps"] and "eval/cost" in line]
    costs = [line["eval/cost"] for line in late]
    return {
        "reward": float(np.mean([line["eval/reward"] for line in late])),
        "cost": float(np.mean(costs)),
        "cost Q3": float(np.quantile(costs, 0.75)),
        "spent": last["train/cumulative_cost"],
        "entropy": last.get("policy/entropy", math.nan),
        "seconds": last["wall_seconds"],
    }


def table(problems: tuple[str, ...], seeds: list[int], found: dict[tuple[str, str, int], dict[str, float]]) -> str:
    head = ["environment", "", *COLUMNS]
    lines = ["| " + " | ".join(head) + " |", "| --- | --- |" + " ---: |" * len(COLUMNS)]
    for problem in problems:
        values = {
            side: {name: np.array([found[problem, side, seed][name] for seed in seeds]) for name in COLUMNS}
            for side in "AB"
        }
        for side in "AB":
            cells = [f"{values[side][name].mean():.4g} ± {values[side][name].std():.2g}" for name in COLUMNS]
            lines.append("| " + " | ".join([problem, side, *cells]) + " |")
        differences = [values["B"][name] - values["A"][name] for name in COLUMNS]
        cells = [f"{d.mean():+.3g} ± {d.std(ddof=min(1, len(d) - 1)) / math.sqrt(len(d)):.2g}" for d in differences]
        lines.append("| " + " | ".join([problem, "B - A", *cells]) + " |")
    return "\n".join(lines)


def setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"a setting is name=value, got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value  # a word


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--a", type=setting, nargs="*", default=[], metavar="NAME=VALUE", help="settings of A")
    parser.add_argument("--b", type=setting, nargs="*", default=[], metavar="NAME=VALUE", help="settings of B")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, help="in place of each environment's own")
    parser.add_argument("--output", type=Path, help="keep the run directories here")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time; one core each")
    arguments = parser.parse_args()
    os.environ |= SINGLE_THREADED  # before a worker imports JAX
    problems = SETS[arguments.set]
    sides = {"A": dict(arguments.a), "B": dict(arguments.b)}
    with tempfile.TemporaryDirectory() as scratch:
        output = arguments.output or Path(scratch)
        with ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
            jobs = {}
            for problem in problems:
                for seed in arguments.seeds:
                    for side, settings in sides.items():
                        steps = arguments.steps or PROBLEMS[problem].steps
                        directory = str(output / f"{problem.replace(', ', '-').replace(' ', '-')}-{side}-{seed}")
                        jobs[pool.submit(run, problem, steps, settings, seed, directory)] = (problem, side, seed)
            found = {}
            for job in as_completed(jobs):
                found[jobs[job]] = job.result()
                print(*jobs[job], {name: round(value, 2) for name, value in found[jobs[job]].items()}, flush=True)
    print(f"\nA: {sides['A'] or 'the defaults'}; B: {sides['B'] or 'the defaults'}; seeds {arguments.seeds}\n")
    print(table(problems, arguments.seeds, found))


if __name__ == "__main__":
    main()
