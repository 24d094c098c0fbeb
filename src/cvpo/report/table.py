"""The table: one row for each method on each task, or on each constraint of a task that has several."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cvpo.report.comparisons import convergence_costs
from cvpo.report.load import CONVERGED, RunRecord
from cvpo.report.statistics import cost_to_reach, deviation, five_numbers, mean
from cvpo.report.study import Constraint, Study, final_cost, final_reward
from cvpo.report.style import short_number
from cvpo.report.verdict import probability_within

REWARD_LEVEL = 0.8
"""Of the way from the untrained to the best method's reward: what `cost_to_reach` asks for."""


class Column(NamedTuple):
    key: str  # in the CSV file
    title: str
    meaning: str
    show: Callable[[float], str] = lambda value: f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    deviation: str | None = None  # key of the standard deviation that is shown beside it


class Row(NamedTuple):
    constraint: Constraint
    method: str
    values: dict[str, float]  # by Column.key


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def percentage(value: float) -> str:
    """Never "100%" for what is not certain."""
    return ">99%" if 0.995 <= value < 1 else "<1%" if 0 < value < 0.005 else f"{value:.0%}"


def _count(value: float) -> str:
    return f"{value:.0f}"


def _amount(value: float) -> str:
    return short_number(float(f"{value:.3g}"))


_LAST = f"over the last {CONVERGED:.0%} of training"
COLUMNS = (
    Column("runs", "Runs", "runs of the method that count, one for each seed", _count),
    Column("behind", "Behind", "runs that do not count: they ended, or are, far behind the method's others", _count),
    Column("unfinished", "Unfinished", "runs that count and have not taken all their steps yet", _count),
    Column("limit", "Limit", "cost per episode to stay below", lambda value: f"{value:g}"),
    Column(
        "reward", "Reward", f"of the training episodes {_LAST}; mean ± deviation over seeds", deviation="reward_std"
    ),
    Column("cost", "Cost", f"of the training episodes {_LAST}; mean ± deviation over seeds", deviation="cost_std"),
    Column("cost_q3", "Cost Q3", f"third quartile of the epochs' costs {_LAST}"),
    Column(
        "limit_probability",
        "Sure",
        "probability that the expected cost is within the limit, by Student's t over seeds",
        percentage,
    ),
    Column("within_limit", "Within", f"share of epochs {_LAST} with a cost within the limit", lambda v: f"{v:.0%}"),
    Column("eval_reward", "Eval reward", f"of the deterministic policy {_LAST}; mean over seeds"),
    Column("eval_cost", "Eval cost", f"of the deterministic policy {_LAST}; mean over seeds"),
    Column("eval_cost_q3", "Eval cost Q3", f"third quartile of the evaluations' costs {_LAST}, all seeds together"),
    Column("cumulative_cost", "Total cost", "all cost paid in training; mean over seeds", _amount),
    Column(
        "cost_to_reach",
        f"Cost to {REWARD_LEVEL:.0%}",
        f"cost paid until the reward first came {REWARD_LEVEL:.0%} of the way from untrained to the task's best "
        "method; median over seeds, infinite if half of them never did",
        _amount,
    ),
    Column("wall_seconds", "Time", "wall time of a run; mean over seeds", _duration),
)


def make_table(study: Study) -> list[Row]:
    """A row for each constraint and method that has runs."""
    return [
        Row(constraint, method, _values(study, constraint, method, runs))
        for constraint in study.all_constraints()
        for method in study.methods
        if (runs := study.counted(constraint.task, method))
    ]


def _values(study: Study, constraint: Constraint, method: str, runs: Sequence[RunRecord]) -> dict[str, float]:
    i = constraint.index
    level = study.reward_range(constraint.task).at(REWARD_LEVEL)
    converged = convergence_costs(study, constraint, method)
    measured = converged[np.isfinite(converged)]

    def over_runs(value: Callable[[RunRecord], float]) -> np.ndarray:
        return np.array([value(run) for run in runs])

    rewards, costs = over_runs(final_reward), over_runs(lambda run: final_cost(run, i))
    return {
        "runs": len(runs),
        "behind": len(study.select(constraint.task, method)) - len(runs),
        "unfinished": sum(not run.finished for run in runs),
        "limit": constraint.limit,
        "reward": mean(rewards),
        "reward_std": deviation(rewards),
        "cost": mean(costs),
        "cost_std": deviation(costs),
        "cost_q3": float(five_numbers(converged)[3]),
        "limit_probability": probability_within(costs, constraint.limit) if constraint.limit < math.inf else math.nan,
        "within_limit": mean((measured <= constraint.limit).astype(float)),
        "eval_reward": mean(over_runs(lambda run: mean(run.eval_reward[run.converged]))),
        "eval_cost": mean(over_runs(lambda run: mean(run.eval_costs[i][run.converged]))),
        "eval_cost_q3": float(five_numbers(np.concatenate([run.eval_costs[i][run.converged] for run in runs]))[3]),
        "cumulative_cost": mean(over_runs(lambda run: run.cumulative_costs[i][-1])),
        "cost_to_reach": float(
            np.median(over_runs(lambda run: cost_to_reach(run.cumulative_costs[i], run.reward, level)))
        ),
        "wall_seconds": mean(over_runs(lambda run: run.wall_seconds[-1])),
    }


def cell(column: Column, values: dict[str, float]) -> str:
    """A value as a reader wants it."""
    value = values[column.key]
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    shown = column.show(value)
    if column.deviation is not None and values["runs"] > 1:
        spread = values[column.deviation]
        shown += f" ± {spread:.2g}" if spread < 10 else f" ± {spread:.0f}"
    return shown


def as_csv(rows: Sequence[Row]) -> str:
    """All values in full; "nan" where there is none, "inf" where a limit or a cost is infinite."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    keys = [key for column in COLUMNS for key in (column.key, column.deviation) if key is not None]
    writer.writerow(["task", "method", *keys])
    writer.writerows([row.constraint.name, row.method, *(row.values[key] for key in keys)] for row in rows)
    return text.getvalue()


def _plain(name: str) -> str:
    """A name as text: Markdown would take it for HTML or for a link."""
    return html.escape(name, quote=False).replace("[", "\\[").replace("]", "\\]")


def as_markdown(rows: Sequence[Row]) -> str:
    """The table as a reader wants it, with its legend."""
    lines = [["Task", "Method", *(column.title for column in COLUMNS)], ["---", "---", *["---:"] * len(COLUMNS)]]
    lines += [
        [_plain(row.constraint.name), _plain(row.method), *(cell(column, row.values) for column in COLUMNS)]
        for row in rows
    ]
    table = "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines)
    return table + "\n\n" + "\n".join(f"- {column.title}: {column.meaning}." for column in COLUMNS) + "\n"
