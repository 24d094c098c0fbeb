"""The runs of a report, by task and method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cvpo.report.environments import name_environments
from cvpo.report.load import RunRecord
from cvpo.report.methods import method_order, name_methods, without_kl
from cvpo.report.statistics import mean


@dataclass(frozen=True)
class Constraint:
    """One of a task's constraints."""

    task: str
    index: int
    limit: float  # infinite: not constrained
    name: str  # the task, and which of its costs if it has several


class RewardRange(NamedTuple):
    """The rewards between which a task's learning takes place."""

    untrained: float  # mean of all runs' first epochs
    best: float  # mean final reward of the best method

    def normalized(self, reward: float) -> float:
        """0 for untrained, 1 for the best method's final reward."""
        span = self.best - self.untrained
        return (reward - self.untrained) / span if span > 0 else math.nan

    def at(self, fraction: float) -> float:
        return self.untrained + fraction * (self.best - self.untrained)


@dataclass(frozen=True)
class Study:
    """Runs to be compared: each belongs to one task and one method."""

    runs: Sequence[RunRecord]
    run_tasks: Sequence[str]  # of each run
    run_methods: Sequence[str]  # of each run
    tasks: Sequence[str]
    methods: Sequence[str]  # in the order of legends and tables

    @classmethod
    def of(cls, runs: Sequence[RunRecord]) -> Study:
        run_tasks, run_methods = name_tasks(runs), name_methods(runs)
        # The mean of five episodes scatters more than that of twenty: methods are compared by epochs of equal length.
        longest: dict[str, float] = {}
        for run, task in zip(runs, run_tasks, strict=True):
            longest[task] = max(longest.get(task, 0.0), run.epoch_steps)
        runs = [run.in_epochs_of(longest[task]) for run, task in zip(runs, run_tasks, strict=True)]
        return cls(runs, run_tasks, run_methods, sorted(set(run_tasks)), method_order(runs, run_methods))

    def select(self, task: str, method: str) -> list[RunRecord]:
        """The runs of a method on a task, one for each seed."""
        named = zip(self.runs, self.run_tasks, self.run_methods, strict=True)
        return [run for run, its_task, its_method in named if (its_task, its_method) == (task, method)]

    def equal_seeds(self) -> list[list[RunRecord]]:
        """Runs of one method on one task with the same seed: their number is not that of independent results."""
        groups: dict[tuple[str, str, int], list[RunRecord]] = {}
        for run, task, method in zip(self.runs, self.run_tasks, self.run_methods, strict=True):
            groups.setdefault((task, method, run.seed), []).append(run)
        return [group for group in groups.values() if len(group) > 1]

    def on_task(self, task: str) -> list[RunRecord]:
        return [run for run, its in zip(self.runs, self.run_tasks, strict=True) if its == task]

    def of_method(self, method: str) -> list[RunRecord]:
        return [run for run, its in zip(self.runs, self.run_methods, strict=True) if its == method]

    def off_policy(self, method: str) -> bool:
        return self.of_method(method)[0].off_policy

    def is_ablation(self, method: str) -> bool:
        return without_kl(self.of_method(method)[0])

    def limits(self, task: str) -> tuple[float, ...]:
        """[m] of a task, as its constrained runs have them."""
        return min(run.limits for run in self.on_task(task))  # an unconstrained run's are infinite

    def constraints(self, task: str) -> list[Constraint]:
        limits = self.limits(task)
        several = len(limits) > 1
        return [
            Constraint(task, i, limit, f"{task}, cost {i + 1}" if several else task) for i, limit in enumerate(limits)
        ]

    def all_constraints(self) -> list[Constraint]:
        return [constraint for task in self.tasks for constraint in self.constraints(task)]

    def reward_range(self, task: str) -> RewardRange:
        untrained = mean(np.array([run.reward[0] for run in self.on_task(task)]))
        finals = [mean(np.array([final_reward(run) for run in self.select(task, method)])) for method in self.methods]
        return RewardRange(untrained, max((final for final in finals if math.isfinite(final)), default=math.nan))


def final_reward(run: RunRecord) -> float:
    """Mean reward of the training episodes after convergence."""
    return mean(run.reward[run.converged])


def final_cost(run: RunRecord, constraint: int) -> float:
    """Mean cost of the training episodes after convergence."""
    return mean(run.costs[constraint][run.converged])


def name_tasks(runs: Sequence[RunRecord]) -> list[str]:
    """The task of each run: its environment, and the limits too where constrained runs have different ones there.

    An unconstrained run belongs to the task of the constrained ones, if these have the same costs.
    """
    environments = name_environments(runs)
    limits_of: dict[str, set[tuple[float, ...]]] = {}
    for run, env in zip(runs, environments, strict=True):
        limits_of.setdefault(env, set()).update({run.limits} if _constrained(run) else set())

    def name(run: RunRecord, env: str) -> str:
        alternatives = limits_of[env]
        if len(alternatives) < 2 and all(len(limits) == len(run.limits) for limits in alternatives):
            return env
        limits = ", ".join(f"{limit:g}" for limit in run.limits)
        return f"{env} (limit {limits})" if _constrained(run) else f"{env} (no limit)"

    return [name(run, env) for run, env in zip(runs, environments, strict=True)]


def _constrained(run: RunRecord) -> bool:
    return any(math.isfinite(limit) for limit in run.limits)
