"""All that the page shows, as values for JSON: the verdicts, the table, and every run with what it logged."""

from __future__ import annotations

import datetime
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cvpo.metric_names import cost_names
from cvpo.report.films import Film, films_of, writable
from cvpo.report.load import CONVERGED, RunRecord, Unread, logged, within_limits
from cvpo.report.statistics import mean_over_last
from cvpo.report.study import Study, final_cost, final_reward
from cvpo.report.style import looks
from cvpo.report.table import COLUMNS, Column, Row, cell, make_table
from cvpo.report.verdict import Judged, estimate, judge

MOST_NUMBERS = 1_000_000
"""Of all curves together; beyond it neighbouring epochs are averaged, so that the page of many runs stays small."""
FEWEST_POINTS = 50
_FINE = 400_000  # up to so many numbers, one digit more
_GROWING = re.compile(r"^(steps|wall_seconds|train/cumulative_cost(_\d+)?)$")
_HIDDEN = frozenset({"limit"})  # it stands in the heading of the task
_HIDDEN_IF_ZERO = frozenset({"behind", "unfinished"})
_COSTS = frozenset({"cost", "cost_q3", "eval_cost", "eval_cost_q3"})


def page_data(study: Study, unread: Sequence[Unread], film_source: Callable[[Film], str]) -> dict[str, Any]:
    """Every text in it comes from anybody: the page must show it as text."""
    rows = make_table(study)
    columns = [column for column in COLUMNS if _needed(column, rows)]
    paths = [run.path.parent for run in study.runs] + [item.path.parent for item in unread]
    root = Path(os.path.commonpath(paths)) if paths else Path()
    grain = _grain(study.runs)
    return {
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "converged": CONVERGED,
        "methods": _methods(study),
        "columns": [{"title": column.title, "meaning": column.meaning} for column in columns],
        "tasks": [_task(study, task, rows, columns) for task in study.tasks],
        "runs": [_run(study, i, root, grain, film_source) for i in _run_order(study)],
        "notes": notes(study),
        "leftOut": [
            {"path": _relative(item.path, root), "reason": _reason(item, root), "error": item.error} for item in unread
        ],
    }


def _reason(item: Unread, root: Path) -> str:
    """Why it is left out, without the reader's directories: the page may be sent to others."""
    return writable(item.reason.replace(f"{item.path}/", "").replace(str(item.path), "it").replace(f"{root}/", ""))


def notes(study: Study) -> list[str]:
    """What a reader should know before trusting the means."""
    found = []
    for task in study.tasks:
        reached = {}
        for method in study.methods:
            runs = study.counted(task, method)
            seeds = [run.seed for run in study.select(task, method)]
            for seed in sorted({seed for seed in seeds if seeds.count(seed) > 1}):
                found.append(
                    f"{task}, {method}: {seeds.count(seed)} runs have seed {seed}. They are counted as different "
                    "seeds; if they are repetitions, the intervals are too narrow."
                )
            if behind := len(seeds) - len(runs):
                found.append(
                    f"{task}, {method}: {behind} of {len(seeds)} runs ended, or are, far behind the others. They are "
                    "in the curves, and count in no final number."
                )
            if runs:
                reached[method] = max(float(run.steps[-1]) for run in runs)
        shorter = [method for method, steps in reached.items() if steps < (1 - CONVERGED) * max(reached.values())]
        if shorter:
            found.append(
                f"{task}: {', '.join(shorter)} {'has' if len(shorter) == 1 else 'have'} fewer steps than the others; "
                "what they would reach with as many is not known."
            )
    return found


def _methods(study: Study) -> list[dict[str, Any]]:
    look = looks(study.methods)
    return [
        {"name": method, "color": look[method].color, "dark": look[method].dark, "dash": look[method].canvas_dash}
        for method in study.methods
    ]


def _needed(column: Column, rows: Sequence[Row]) -> bool:
    values = [row.values[column.key] for row in rows]
    nothing = all(math.isnan(value) for value in values) or (column.key in _HIDDEN_IF_ZERO and not any(values))
    return column.key not in _HIDDEN and not nothing


def _task(study: Study, task: str, rows: Sequence[Row], columns: Sequence[Column]) -> dict[str, Any]:
    constraints = study.constraints(task)
    verdict = judge(study, task)
    run = study.reference(task)
    return {
        "name": writable(task),
        "limits": [_number(constraint.limit) for constraint in constraints],
        "costs": [writable(constraint.cost) for constraint in constraints],
        # of the curves in which a limit is drawn
        "limitOf": {
            name: constraint.limit
            for names in run.limited_metrics
            for name, constraint in zip(names, constraints, strict=True)
            if math.isfinite(constraint.limit)
        },
        "costMetrics": run.limited_metrics[0],
        "cumulative": cost_names("train/cumulative_cost", len(constraints)),
        "best": study.methods.index(verdict.best.method) if verdict.best else None,
        "rivals": [study.methods.index(rival.method) for rival in verdict.rivals],
        "judged": [_judged(study, task, item) for item in verdict.judged],
        "rows": [_row(study, row, columns, verdict.best) for row in rows if row.constraint.task == task],
    }


def _judged(study: Study, task: str, item: Judged) -> dict[str, Any]:
    runs = study.select(task, item.method)
    return {
        "method": study.methods.index(item.method),
        "reward": [_number(value) for value in estimate(item.rewards)],
        "costs": [[_number(value) for value in estimate(cost)] for cost in item.costs],
        "seeds": [_numbers(item.rewards), *(_numbers(cost) for cost in item.costs)],
        "within": item.within,
        "probability": _number(item.probability),
        "failed": sum(run.error is not None and not run.finished for run in runs),
        "unfinished": sum(not run.finished for run in runs),
        "constrained": any(math.isfinite(limit) for run in runs for limit in run.limits),
    }


def _row(study: Study, row: Row, columns: Sequence[Column], best: Judged | None) -> dict[str, Any]:
    return {
        "constraint": row.constraint.index,
        "method": study.methods.index(row.method),
        "best": best is not None and best.method == row.method,
        "within": bool(row.values["cost"] <= row.values["limit"]),
        "texts": [cell(column, row.values) for column in columns],
        # by which it is sorted; infinity has no number in JSON
        "values": [_sortable(row.values[column.key]) for column in columns],
        "over": [column.key in _COSTS and row.values[column.key] > row.values["limit"] for column in columns],
    }


class Grain(NamedTuple):
    """How finely curves are given: a page of many runs must stay small."""

    points: int  # at most, of a curve
    digits: int


def _grain(runs: Sequence[RunRecord]) -> Grain:
    series = max(sum(len(run.metrics) for run in runs), 1)
    numbers = sum(len(run.metrics) * len(run.metrics["steps"]) for run in runs)
    return Grain(max(FEWEST_POINTS, MOST_NUMBERS // series), 4 if numbers <= _FINE else 3)


def _digits(values: np.ndarray, digits: int) -> int:
    """More of them where a curve varies little for its size."""
    measured = values[np.isfinite(values)]
    span = np.ptp(measured) if len(measured) else 0.0
    if span == 0.0:
        return 7
    return digits + min(max(math.ceil(math.log10(np.abs(measured).max() / span)), 0), 7 - digits)


def _run_order(study: Study) -> list[int]:
    def place(i: int) -> tuple[Any, ...]:
        method = study.methods.index(study.run_methods[i])
        return study.run_tasks[i], method, study.runs[i].seed, study.runs[i].path

    return sorted(range(len(study.runs)), key=place)


def _run(study: Study, i: int, root: Path, grain: Grain, film_source: Callable[[Film], str]) -> dict[str, Any]:
    run, task = study.runs[i], study.run_tasks[i]
    epochs = len(run.metrics["steps"])
    together = math.ceil(epochs / grain.points)
    return {
        "id": writable(str(run.settings["provenance"]["id"])),
        "path": _relative(run.path, root),
        "task": study.tasks.index(task),
        "method": study.methods.index(study.run_methods[i]),
        "seed": run.seed,
        "counted": any(run is other for other in study.counted(task, study.run_methods[i])),
        "steps": run.steps[-1],
        "planned": run.planned_steps,
        "finished": run.finished,
        "error": run.error,
        "reward": _number(final_reward(run)),
        "costs": [_number(final_cost(run, c)) for c in range(len(run.limits))],
        "limits": [_number(limit) for limit in run.limits],
        "epochs": epochs,
        "together": together,
        "metrics": _curves(run, study.limits(task), together, grain.digits),
        "labels": _labels(run.metrics, [constraint.cost for constraint in study.constraints(task)]),
        "changed": _plain(_changed(run)),
        "settings": _plain(run.settings),
        "films": [
            {"name": film.name, "type": film.media_type, "source": film_source(film)} for film in films_of(run.path)
        ],
    }


def _curves(run: RunRecord, limits: Sequence[float], together: int, digits: int) -> dict[str, str]:
    """Each metric's values, as text between commas; nothing for what was not measured.

    Text, because it takes the least room, and a page need not parse what nobody looks at.
    """
    metrics = {name: values for name, values in run.metrics.items() if name != "epoch"}
    shown = {name: _thinned(values, together, last=bool(_GROWING.match(name))) for name, values in metrics.items()}
    if any(map(math.isfinite, limits)):
        within = within_limits(logged(run.metrics, run.limited_metrics[0]), limits)
        shown["train/within_limit"] = _thinned(within, together, last=False)
    return {
        name: _text(values, 7 if _GROWING.match(name) else _digits(values, digits)) for name, values in shown.items()
    }


def _thinned(values: np.ndarray, together: int, *, last: bool) -> np.ndarray:
    """Means of so many neighbours each, or the last of them; the final ones may be fewer."""
    if together == 1:
        return values
    padded = np.append(values, np.full(-len(values) % together, values[-1] if last else np.nan))
    groups = padded.reshape(-1, together)
    return groups[:, -1] if last else mean_over_last(groups)


def _text(values: np.ndarray, digits: int) -> str:
    form = f"%.{digits}g"
    return ",".join("" if value != value else form % value for value in values.tolist())


def _labels(metrics: Mapping[str, np.ndarray], costs: Sequence[str]) -> dict[str, str]:
    """What to call the metrics that each constraint has of its own: `train/cost_0` is `train/cost (hazards)`."""
    if len(costs) < 2:
        return {}
    found = {}
    for name in metrics:
        stem, _, number = name.rpartition("_")
        if number.isdecimal() and int(number) < len(costs) and all(n in metrics for n in cost_names(stem, len(costs))):
            found[name] = f"{stem} ({writable(costs[int(number)])})"
    return found


def _changed(run: RunRecord) -> dict[str, Any] | None:
    """The settings that are not the preset's, each with its value and what the preset has; None: the run is silent."""
    before = run.settings.get("changed")
    if not isinstance(before, dict):
        return None
    config = run.settings["config"]
    return {name: [config[name], default] for name, default in before.items() if name in config}


def _relative(path: Path, root: Path) -> str:
    return writable(os.path.relpath(path, root))


def _number(value: float) -> float | None:
    """To seven digits, more than a screen shows; None for what was not measured, and for no limit."""
    return float(f"{value:.7g}") if math.isfinite(value) else None


def _numbers(values: np.ndarray) -> list[float | None]:
    return [_number(value) for value in values]


def _sortable(value: float) -> float | str | None:
    return "Infinity" if value == math.inf else _number(value)


def _plain(value: Any) -> Any:
    """`value` without what JSON lacks."""
    if isinstance(value, dict):
        return {writable(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
