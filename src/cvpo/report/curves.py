"""Figures of what happens during training: one line for each method, the mean over its seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from cvpo.errors import BadValue
from cvpo.report.load import RunRecord, read_run
from cvpo.report.statistics import common_grid, mean_and_deviation, on_grid, trailing_mean
from cvpo.report.study import Constraint, Study
from cvpo.report.style import (
    Look,
    add_legend,
    columns_of_axes,
    cost_axis,
    grid_of_axes,
    label_reward,
    label_steps,
    legend_above,
    looks,
    rendered,
    styled,
)

WINDOW = 0.1
"""Part of training over which the share of epochs within the limit is taken."""


def training_curves(study: Study, methods: Sequence[str], compared: Sequence[str] = ()) -> Figure:
    """Reward above, cost below, a column for each task: mean and standard deviation over seeds, limits dashed.

    The tasks are those of the methods that are `compared` with the others; of all, if none is named.
    """
    tasks = [task for task in study.tasks if any(study.select(task, method) for method in compared or methods)]
    rows = 1 + max(len(study.limits(task)) for task in tasks)
    figure, columns = columns_of_axes(len(tasks), rows)
    colors = looks(study.methods)
    for task, axes in zip(tasks, columns, strict=True):
        constraints = study.constraints(task)
        for method in methods:
            runs = study.select(task, method)
            _draw_mean(axes[0], runs, lambda run: run.reward, colors[method])
            for constraint, below in zip(constraints, axes[1:], strict=False):
                _draw_mean(below, runs, lambda run, i=constraint.index: run.costs[i], colors[method])  # type: ignore[misc]
        axes[0].set_title(task)
        label_reward(axes[0])
        for constraint, below in zip(constraints, axes[1:], strict=False):
            _label_cost(below, constraint)
        for unused in axes[1 + len(constraints) :]:
            unused.set_visible(False)
        for used in axes[: 1 + len(constraints)]:
            label_steps(used)
    add_legend(figure, methods, colors, limit=True)
    return figure


def reward_against_cost(study: Study) -> Figure:
    """Reward over all the cost paid so far, on a log axis: the further up and left, the less a reward has cost."""
    constraints = [constraint for constraint in study.all_constraints() if _paid(study, constraint)]
    figure, columns = columns_of_axes(len(constraints), 1, height=2.3)
    colors = looks(study.methods)
    for constraint, (axes,) in zip(constraints, columns, strict=True):
        for method in study.methods:
            curves = [reward_by_cost(run, constraint.index) for run in study.select(constraint.task, method)]
            curves = [(cost, reward) for cost, reward in curves if len(cost)]
            if curves:
                # Straight between points on the axis that is shown, the logarithm.
                grid = common_grid([np.log10(cost) for cost, _ in curves], points=200)
                rewards = np.array([on_grid(grid, np.log10(cost), reward) for cost, reward in curves])
                _draw_band(axes, 10.0**grid, *mean_and_deviation(rewards), colors[method])
        axes.set_xscale("log", subs=[])
        axes.set_title(constraint.name)
        axes.set_xlabel("cumulative cost")
        label_reward(axes)
    add_legend(figure, study.methods, colors, limit=False)
    return figure


def any_paid(study: Study) -> bool:
    """Whether there is anything to draw of rewards against costs."""
    return any(_paid(study, constraint) for constraint in study.all_constraints())


def _paid(study: Study, constraint: Constraint) -> bool:
    return any(np.isfinite(reward_by_cost(run, constraint.index)[1]).any() for run in study.on_task(constraint.task))


def reward_by_cost(run: RunRecord, constraint: int) -> tuple[np.ndarray, np.ndarray]:
    """The run's epochs as (cumulative cost, reward), from the first cost on: a log axis has no place for none."""
    cost = run.cumulative_costs[constraint]
    paid = cost > 0
    return cost[paid], run.reward[paid]


def limit_satisfaction(study: Study) -> Figure:
    """How probable it is, as training goes on, that an epoch's cost is within all limits."""
    tasks = limited_tasks(study)
    figure, columns = columns_of_axes(len(tasks), 1, height=2.1)
    colors = looks(study.methods)
    for task, (axes,) in zip(tasks, columns, strict=True):
        for method in study.methods:
            satisfied = partial(satisfaction, limits=study.limits(task))
            _draw_mean(axes, study.select(task, method), satisfied, colors[method], band=False)
        axes.set_title(task)
        axes.set_ylabel("within the limit")
        axes.set_ylim(-0.03, 1.03)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        label_steps(axes)
    add_legend(figure, study.methods, colors, limit=False)
    return figure


def limited_tasks(study: Study) -> list[str]:
    """The tasks that have a limit to satisfy."""
    return [task for task in study.tasks if any(map(math.isfinite, study.limits(task)))]


def satisfaction(run: RunRecord, limits: Sequence[float]) -> np.ndarray:
    """[T] the share of recent epochs that are within all limits of the task, also if the run had none to obey."""
    return trailing_mean(run.steps, run.within(limits), WINDOW * max(run.planned_steps, run.steps[-1]))


def draw_run(path: str | Path, output: str | Path) -> Path:
    """Draw one run's reward and cost, with the limit, to `output`; its ending (.png, .svg, .pdf) says how."""
    run, output = read_run(Path(path)), Path(output)
    format_name = output.suffix.lstrip(".").lower()
    if format_name not in ("png", "svg", "pdf"):
        raise BadValue(f"output must end in .png, .svg or .pdf, got {output}")
    with styled():
        figure = run_figure(run)
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(rendered(figure, [format_name])[format_name])
    return output


def run_figure(run: RunRecord) -> Figure:
    """Reward and costs of one run's training episodes, and of its evaluations, side by side."""
    study = Study.of([run])
    (task,), (method,) = study.tasks, study.methods
    constraints = study.constraints(task)
    figure, (row,) = grid_of_axes(1, 1 + len(constraints), width=4.0, height=2.8)
    look = looks([method])[method]
    shown = [(row[0], run.reward, run.eval_reward)]
    shown += [(axes, run.costs[c.index], run.eval_costs[c.index]) for c, axes in zip(constraints, row[1:], strict=True)]
    for axes, trained, evaluated in shown:
        dot = "o" if len(run.steps) == 1 else None
        axes.plot(run.steps, trained, color=look.color, label="training episodes", marker=dot)
        measured = np.isfinite(evaluated)
        if measured.any():
            style = {"color": "#E69F00", "linewidth": 1.2, "alpha": 0.9, "zorder": 1.95}
            axes.plot(run.steps[measured], evaluated[measured], label="deterministic policy", marker=dot, **style)  # type: ignore[arg-type]
        label_steps(axes)
    label_reward(row[0])
    for constraint, axes in zip(constraints, row[1:], strict=True):
        _label_cost(axes, constraint)
    legend_above(figure, *row[-1].get_legend_handles_labels(), title=f"{method} on {task}")
    return figure


def _draw_mean(
    axes: Axes, runs: Sequence[RunRecord], value: Callable[[RunRecord], np.ndarray], look: Look, *, band: bool = True
) -> None:
    """Mean over runs of `value(run)` [T] at equal numbers of steps."""
    if runs:
        grid = common_grid([run.steps for run in runs])
        mean, deviation = mean_and_deviation(np.array([on_grid(grid, run.steps, value(run)) for run in runs]))
        _draw_band(axes, grid, mean, deviation if band else None, look)


def _draw_band(axes: Axes, x: np.ndarray, mean: np.ndarray, deviation: np.ndarray | None, look: Look) -> None:
    alone = np.isfinite(mean).sum() == 1  # a line of one point is not seen
    axes.plot(x, mean, color=look.color, linestyle=look.dashes, marker="o" if alone else None, markersize=4)
    if deviation is not None:
        axes.fill_between(x, mean - deviation, mean + deviation, color=look.color, alpha=0.18, linewidth=0)


def _label_cost(axes: Axes, constraint: Constraint) -> None:
    axes.set_ylabel(constraint.cost)
    cost_axis(axes, constraint.limit)
