"""Costs by place, time and cause: numbers and a picture."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle as CirclePatch
from matplotlib.patches import Polygon as PolygonPatch
from matplotlib.ticker import MaxNLocator

from cvpo.report.style import INK, LIMIT, styled
from cvpo.tasks.shapes import Disc, Polygon

_COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_BINS, _CELLS = 40, 48


class Violations(NamedTuple):
    """n episodes of at most T steps with m limits."""

    limits: list[float]
    episode_costs: np.ndarray  # [n, m]
    by_time: dict[str, np.ndarray]  # [T] mean cost of a step at that time, by cause
    by_cause: dict[str, float]  # mean cost of an episode
    places: np.ndarray | None  # [k, 2] where a step cost something
    weights: np.ndarray  # [k] how much
    visited: np.ndarray | None  # [l, 2] where the robots were at all

    @classmethod
    def of(cls, steps: dict[str, np.ndarray], limits: Sequence[float], parts: Sequence[str]) -> Violations:
        """From a recording of all steps [n, T, ...]."""
        costs, running = steps["costs"].astype(float), steps["running"]
        names = ["cost"] if costs.shape[2] == 1 else [f"cost {i}" for i in range(costs.shape[2])]
        causes = {name: steps[name] for name in parts} or {name: costs[..., i] for i, name in enumerate(names)}
        total = costs.sum(2)
        place = steps.get("place")
        return cls(
            limits=[float(limit) for limit in limits],
            episode_costs=costs.sum(1),
            by_time={name: values.mean(0) for name, values in causes.items()},
            by_cause={name: float(values.sum(1).mean()) for name, values in causes.items()},
            places=None if place is None else place[total > 0],
            weights=total[total > 0],
            visited=None if place is None else place[running],
        )

    def numbers(self) -> dict[str, Any]:
        """For violations.json."""
        return {
            "episodes": len(self.episode_costs),
            "cost_limits": self.limits,
            "over_limit": float((self.episode_costs > np.array(self.limits)).any(1).mean()),
            "cost_by_cause": self.by_cause,
            "cost_by_time": {name: values.tolist() for name, values in self.by_time.items()},
            "episode_costs": self.episode_costs.tolist(),
        }


def draw_violations(found: Violations, path: Path, title: str, floor: Sequence[Any] = ()) -> Path:
    """One picture: when, how much, and where if that is known."""
    panels = 3 if found.places is not None else 2
    with styled():
        figure = Figure(figsize=(4.1 * panels, 3.9), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(1, panels)
        _draw_time(axes[0], found)
        _draw_episodes(axes[1], found)
        if found.places is not None:
            _draw_places(figure, axes[2], found, floor)
        over = (found.episode_costs > np.array(found.limits)).any(1)
        figure.suptitle(f"{title}: {over.sum()} of {len(found.episode_costs)} episodes over the limit", fontsize=11)
        figure.savefig(path, dpi=130)
    return path


def _draw_time(axes: Axes, found: Violations) -> None:
    horizon = len(next(iter(found.by_time.values())))
    bins = min(_BINS, horizon)
    edges = np.linspace(0, horizon, bins + 1).astype(int)
    names = sorted(found.by_cause, key=lambda name: -found.by_cause[name])
    base = np.zeros(bins)
    for i, name in enumerate(names):
        heights = np.array([found.by_time[name][a:b].mean() for a, b in itertools.pairwise(edges)])
        label = f"{name.removeprefix('cost_').replace('_', ' ')} ({found.by_cause[name]:.2g} an episode)"
        axes.bar(
            edges[:-1], heights, np.diff(edges), base, align="edge", color=_COLOURS[i % len(_COLOURS)], label=label
        )
        base += heights
    axes.set(title="When, and from what", xlabel="step of the episode", ylabel="mean cost of a step")
    axes.set_xlim(0, horizon)
    axes.set_ylim(0, max(1e-12, 1.3 * base.max()))
    axes.legend(loc="upper right", fontsize=8)


def _draw_episodes(axes: Axes, found: Violations) -> None:
    for i, (costs, limit) in enumerate(zip(found.episode_costs.T, found.limits, strict=True)):
        several = len(found.limits) > 1
        label = f"cost {i}" if several else None
        largest = max(costs.max(), limit if math.isfinite(limit) else 0, 1.0)
        axes.hist(
            costs, np.linspace(0, largest * 1.02, 31).tolist(), color=_COLOURS[(i + 1) % 6], alpha=0.8, label=label
        )
        if math.isfinite(limit):
            axes.axvline(limit, **LIMIT)
            axes.text(limit, 1.0, f" limit {limit:g}", transform=axes.get_xaxis_transform(), va="top", color=INK)
        if several:
            axes.legend(fontsize=8)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(title="How much", xlabel="cost of an episode", ylabel="episodes")


def _draw_places(figure: Figure, axes: Axes, found: Violations, floor: Sequence[Any]) -> None:
    """Costs on a grid over what was visited; faint dots show where the robots were at all."""
    assert found.places is not None and found.visited is not None
    reach = 1.05 * max(0.1, float(np.abs(found.visited).max(initial=0.0)))
    thinned = found.visited[:: max(1, len(found.visited) // 4000)]
    axes.plot(*thinned.T, ",", color="#bbbbbb", zorder=1)
    for shape in floor:
        _draw_shape(axes, shape)
    cells, _, _ = np.histogram2d(
        found.places[:, 0], found.places[:, 1], _CELLS, [[-reach, reach]] * 2, weights=found.weights
    )
    shown = np.ma.masked_equal(cells.T / len(found.episode_costs), 0.0)
    image = axes.imshow(
        shown, origin="lower", extent=(-reach, reach, -reach, reach), cmap="inferno_r", zorder=2, alpha=0.9
    )
    figure.colorbar(image, ax=axes, label="cost an episode, in a cell", shrink=0.8)
    axes.grid(False)
    axes.set(title="Where", xlabel="x in m", ylabel="y in m", xlim=(-reach, reach), ylim=(-reach, reach))
    axes.set_aspect("equal")


def _draw_shape(axes: Axes, shape: Any) -> None:
    style: dict[str, Any] = {"facecolor": "none", "edgecolor": "#999999", "zorder": 1.5}
    if shape.look == "hazard":
        style |= {"facecolor": "#D55E0018", "edgecolor": "#D55E0088"}
    elif shape.look == "goal":
        return  # it moves
    match shape:
        case Disc(x, y, radius):
            axes.add_patch(CirclePatch((x, y), radius, **style))
        case Polygon(corners):
            axes.add_patch(PolygonPatch(corners, closed=True, **style))
