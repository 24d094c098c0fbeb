"""Figures of where training ends: one row for each method."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cvpo.report.statistics import bootstrap_interval, five_numbers, interquartile_mean
from cvpo.report.study import Constraint, Study, final_cost, final_reward
from cvpo.report.style import columns_of_axes, cost_axis, looks


def convergence_boxes(study: Study) -> Figure:
    """Box plots of the epochs' costs after convergence, all seeds together: quartiles, minimum and maximum."""
    constraints = study.all_constraints()
    figure, columns = columns_of_axes(len(constraints), 1, height=_height(study), labels=_label_width(study))
    colors = looks(study.methods)
    for constraint, (axes,) in zip(constraints, columns, strict=True):
        for place, method in enumerate(study.methods):
            numbers = five_numbers(convergence_costs(study, constraint, method))
            if np.isfinite(numbers).all():
                _draw_box(axes, place, numbers, colors[method].color)
        axes.set_title(constraint.name)
        axes.set_xlabel("convergence cost")
        cost_axis(axes, constraint.limit, vertical=True)
        _label_methods(axes, study)
    return figure


def convergence_costs(study: Study, constraint: Constraint, method: str) -> np.ndarray:
    """The cost of every epoch in the last part of training, of all runs of a method."""
    runs = study.counted(constraint.task, method)
    return np.concatenate([np.zeros(0), *(run.costs[constraint.index][run.converged] for run in runs)])


def final_intervals(study: Study) -> Figure:
    """Interquartile means of final reward and cost with 95% bootstrap intervals, by task and over all tasks."""
    rows = 1 + max(len(study.limits(task)) for task in study.tasks)
    # For all tasks together there must be a method that has runs on each.
    everywhere = any(all(study.select(task, method) for task in study.tasks) for method in study.methods)
    together = len(study.tasks) > 1 and everywhere
    figure, columns = columns_of_axes(
        len(study.tasks) + together, rows, height=_height(study), labels=_label_width(study)
    )
    for task, axes in zip(study.tasks, columns, strict=False):
        constraints = study.constraints(task)
        _draw_intervals(axes[0], study, {m: [_finals(study, task, m)] for m in study.methods})
        for constraint, below in zip(constraints, axes[1:], strict=False):
            costs = {m: [_finals(study, task, m, constraint)] for m in study.methods}
            _draw_intervals(below, study, costs)
            cost_axis(below, constraint.limit, vertical=True)
            below.set_xlabel(f"final {constraint.cost}")
        axes[0].set_title(task)
        axes[0].set_xlabel("final reward")
        for unused in axes[1 + len(constraints) :]:
            unused.set_visible(False)
    if together:
        axes = columns[-1]
        axes[0].set_title("all tasks")
        axes[0].set_xlabel("normalised reward")
        _draw_intervals(axes[0], study, {m: normalized_rewards(study, m) for m in study.methods})
        limited = any(relative_costs(study, method) for method in study.methods)
        if limited:
            axes[1].set_xlabel("cost / limit")
            _draw_intervals(axes[1], study, {m: relative_costs(study, m) for m in study.methods})
            cost_axis(axes[1], 1.0, vertical=True)
        for unused in axes[1 + limited :]:
            unused.set_visible(False)
    return figure


def normalized_rewards(study: Study, method: str) -> list[np.ndarray]:
    """For each task, the final rewards of a method's runs, with 0 untrained and 1 the best method's mean."""
    scales = {task: study.reward_range(task) for task in study.tasks}
    return [np.array([scales[task].normalized(r) for r in _finals(study, task, method)]) for task in study.tasks]


def relative_costs(study: Study, method: str) -> list[np.ndarray]:
    """For each constraint with a limit above 0, the final costs of a method's runs in units of the limit."""
    return [
        _finals(study, constraint.task, method, constraint) / constraint.limit
        for constraint in study.all_constraints()
        if 0 < constraint.limit < math.inf
    ]


def _finals(study: Study, task: str, method: str, constraint: Constraint | None = None) -> np.ndarray:
    """[n] final reward, or final cost, of each run that has one."""
    runs = study.counted(task, method)
    values = [final_reward(run) if constraint is None else final_cost(run, constraint.index) for run in runs]
    return np.array([value for value in values if math.isfinite(value)])


def _draw_intervals(axes: Axes, study: Study, results: dict[str, list[np.ndarray]]) -> None:
    """results: for each method one array of runs for each task; a method that lacks a task is left out."""
    colors = looks(study.methods)
    for place, method in enumerate(study.methods):
        strata = results[method]
        if strata and all(len(values) and np.isfinite(values).all() for values in strata):
            low, high = bootstrap_interval(strata)
            middle = interquartile_mean(np.concatenate(strata))
            axes.plot([low, high], [place, place], color=colors[method].color, linewidth=5, alpha=0.35)
            axes.plot([middle], [place], color=colors[method].color, marker="o", markersize=5)
    _label_methods(axes, study)


def _draw_box(axes: Axes, place: int, numbers: np.ndarray, color: str) -> None:
    low, first, median, third, high = numbers
    box = {"whislo": low, "q1": first, "med": median, "q3": third, "whishi": high}
    axes.bxp(
        [box],
        positions=[place],
        widths=0.6,
        orientation="horizontal",
        showfliers=False,
        patch_artist=True,
        boxprops={"facecolor": color, "edgecolor": color, "alpha": 0.55},
        medianprops={"color": "#111111", "linewidth": 1.6},
        whiskerprops={"color": color},
        capprops={"color": color},
        manage_ticks=False,
    )


def _label_methods(axes: Axes, study: Study) -> None:
    place = axes.get_subplotspec()
    named = place is not None and place.is_first_col()
    names = _labels(study)
    axes.set_yticks(range(len(names)), names if named else [""] * len(names))
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def _height(study: Study) -> float:
    return 1.0 + 0.23 * len(study.methods)


def _label_width(study: Study) -> float:
    return 0.15 + 0.068 * max(map(len, _labels(study)))  # inches: a character is about that wide


def _labels(study: Study) -> list[str]:
    return [f"{method} ({'off' if study.off_policy(method) else 'on'})" for method in study.methods]
