"""The verdict on a task: which method earns most within the limits, which are over them, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from cvpo.report.study import Study, final_cost, final_reward

SURE = 0.95


class Estimate(NamedTuple):
    """The mean over seeds, with its interval by Student's t; NaN where one seed tells nothing."""

    mean: float
    low: float
    high: float


class Judged(NamedTuple):
    """One method on one task."""

    method: str
    rewards: np.ndarray  # [n] of each run that counts
    costs: np.ndarray  # [m, n]
    within: bool  # the mean costs are within all limits
    probability: float  # that the expected costs are; NaN: one seed cannot tell


class Verdict(NamedTuple):
    """A task's methods, and of those within the limits the best."""

    judged: list[Judged]  # in the order of the report
    best: Judged | None  # None: no method is within the limits
    rivals: list[Judged]  # within the limits too, and not clearly worse


def judge(study: Study, task: str) -> Verdict:
    limits = np.array(study.limits(task))
    judged = []
    for method in study.methods:
        runs = [run for run in study.counted(task, method) if math.isfinite(final_reward(run))]
        if runs:
            rewards = np.array([final_reward(run) for run in runs])
            costs = np.array([[final_cost(run, i) for run in runs] for i in range(len(limits))])
            within = bool(np.all(costs.mean(axis=1) <= limits))
            judged.append(Judged(method, rewards, costs, within, _probability(costs, limits)))
    safe = [item for item in judged if item.within]
    best = max(safe, key=lambda item: item.rewards.mean(), default=None)
    rivals = [item for item in safe if best and item is not best and not clearly_more(best.rewards, item.rewards)]
    return Verdict(judged, best, rivals)


def estimate(values: np.ndarray) -> Estimate:
    """Of values [n], one for each seed."""
    if len(values) < 2:
        return Estimate(float(values.mean()), math.nan, math.nan)
    half = special.stdtrit(len(values) - 1, (1 + SURE) / 2) * values.std(ddof=1) / math.sqrt(len(values))
    return Estimate(float(values.mean()), float(values.mean() - half), float(values.mean() + half))


def probability_within(costs: np.ndarray, limit: float) -> float:
    """That the expected cost is within the limit, given the costs of n seeds; by Student's t. NaN with one seed."""
    if not math.isfinite(limit):
        return 1.0
    if len(costs) < 2 or not np.isfinite(costs).all():
        return math.nan
    deviation = costs.std(ddof=1) / math.sqrt(len(costs))
    room = limit - costs.mean()
    return float(special.stdtr(len(costs) - 1, room / deviation)) if deviation > 0 else float(room >= 0)


def _probability(costs: np.ndarray, limits: Sequence[float] | np.ndarray) -> float:
    """Of all limits together: at least this, however the costs depend on each other."""
    short = sum(1.0 - probability_within(cost, limit) for cost, limit in zip(costs, limits, strict=True))
    return max(0.0, 1.0 - short) if not math.isnan(short) else math.nan


def clearly_more(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether the expectation of a [n] is above that of b [k] with probability `SURE`, by Welch's test."""
    if min(len(a), len(b)) < 2:
        return False
    parts = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    total = sum(parts)
    if total == 0:
        return bool(a.mean() > b.mean())
    freedom = total**2 / sum(part**2 / (len(x) - 1) for part, x in zip(parts, (a, b), strict=True))
    return bool(special.stdtr(freedom, (a.mean() - b.mean()) / math.sqrt(total)) >= SURE)
