"""The runs of a report, by task and method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cvpo.report.load import CONVERGED, RunRecord
from cvpo.report.methods import method_order, name_methods, without_kl
from cvpo.report.statistics import mean
from cvpo.report.tasks import constrained, name_tasks


@dataclass(frozen=True)
class Constraint:
    """One of a task's constraints."""

    task: str
    index: int
    limit: float  # infinite: not constrained
    cost: str  # the cost's name
    name: str  # the task, and the cost's name if there are several


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
        run_tasks = name_tasks(runs)
        run_methods = name_methods(runs, run_tasks)
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

    def counted(self, task: str, method: str) -> list[RunRecord]:
        """Those runs of a method on a task whose ends are compared: not one that ended, or is, far behind the others.

        What a run has learned in a tenth of the time is no result of the method.
        """
        runs = self.select(task, method)
        furthest = max((run.steps[-1] for run in runs), default=0.0)
        return [run for run in runs if run.steps[-1] >= (1.0 - CONVERGED) * furthest]

    def on_task(self, task: str) -> list[RunRecord]:
        return [run for run, its in zip(self.runs, self.run_tasks, strict=True) if its == task]

    def of_method(self, method: str) -> list[RunRecord]:
        return [run for run, its in zip(self.runs, self.run_methods, strict=True) if its == method]

    def off_policy(self, method: str) -> bool:
        return self.of_method(method)[0].off_policy

    def is_ablation(self, method: str) -> bool:
        return without_kl(self.of_method(method)[0])

    def reference(self, task: str) -> RunRecord:
        """A run that tells the task's limits: a constrained one, if there is any."""
        runs = self.on_task(task)
        return next((run for run in runs if constrained(run)), runs[0])

    def limits(self, task: str) -> tuple[float, ...]:
        """[m] of a task, as its constrained runs have them."""
        return self.reference(task).limits

    def constraints(self, task: str) -> list[Constraint]:
        run = self.reference(task)
        several = len(run.limits) > 1
        costs = run.cost_keys or ([f"cost {i + 1}" for i in range(len(run.limits))] if several else ["cost"])
        statistic = "" if run.statistic == "mean" else f" ({run.statistic})"
        return [
            Constraint(task, i, limit, cost + statistic, f"{task}, {cost}" if several else task)
            for i, (limit, cost) in enumerate(zip(run.limits, costs, strict=True))
        ]

    def all_constraints(self) -> list[Constraint]:
        return [constraint for task in self.tasks for constraint in self.constraints(task)]

    def reward_range(self, task: str) -> RewardRange:
        untrained = mean(np.array([run.reward[0] for run in self.on_task(task)]))
        finals = [mean(np.array([final_reward(run) for run in self.counted(task, method)])) for method in self.methods]
        return RewardRange(untrained, max((final for final in finals if math.isfinite(final)), default=math.nan))


def final_reward(run: RunRecord) -> float:
    """Mean reward of the training episodes after convergence."""
    return mean(run.reward[run.converged])


def final_cost(run: RunRecord, constraint: int) -> float:
    """Mean cost of the training episodes after convergence."""
    return mean(run.costs[constraint][run.converged])
