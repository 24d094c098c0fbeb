"""Run directories as records of arrays."""

from __future__ import annotations

import math
import os
import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cvpo.errors import UserError
from cvpo.metric_names import cost_names
from cvpo.report.statistics import mean_over_last
from cvpo.runs.directory import CONFIG, METRICS, RunDirectoryError, read_config, read_metrics
from cvpo.runs.strict_json import require_fields

# What a run directory may ask of a report. Anybody may have written it, and one run must not stop or stall the others.
LONGEST_NAME = 200
LARGEST_NUMBER = 1e30
MOST_CONSTRAINTS = 50
CONVERGED = 0.2
"""The last part of training that counts as converged, as in the paper's section on the convergence cost."""


@dataclass(frozen=True)
class RunRecord:
    """One run, as far as it has come: T epochs, m constraints. NaN stands for what an epoch did not measure."""

    path: Path
    settings: dict[str, Any]  # all of config.json
    steps: np.ndarray  # [T] environment steps at the end of each epoch
    wall_seconds: np.ndarray  # [T]
    reward: np.ndarray  # [T] mean over the epoch's training episodes
    costs: np.ndarray  # [m, T]
    cumulative_costs: np.ndarray  # [m, T] all cost paid since the start
    eval_reward: np.ndarray  # [T] mean over the evaluation's episodes
    eval_costs: np.ndarray  # [m, T]

    @property
    def env(self) -> str:
        return str(self.settings["env"])

    @property
    def environment(self) -> dict[str, Any] | None:
        """What made the environment, with its arguments and spaces; None of a run that did not store it."""
        found = self.settings.get("environment")
        return found if isinstance(found, dict) else None

    @property
    def algorithm(self) -> str:
        return str(self.settings["algorithm"])

    @property
    def seed(self) -> int:
        return int(self.settings["seed"])

    @property
    def limits(self) -> tuple[float, ...]:
        """[m] of the cost per episode; infinite: not constrained."""
        return tuple(float(limit) for limit in self.settings["cost_limit"])

    @property
    def planned_steps(self) -> int:
        return int(self.settings["steps"])

    @property
    def finished(self) -> bool:
        return bool(self.steps[-1] >= self.planned_steps)

    @property
    def off_policy(self) -> bool:
        """Whether the method learns from a replay."""
        return bool(self.settings["off_policy"])

    @property
    def converged(self) -> np.ndarray:
        """[T] the epochs of the last part of what has been trained so far."""
        return self.steps > (1.0 - CONVERGED) * self.steps[-1]

    def within(self, limits: Sequence[float]) -> np.ndarray:
        """[T] 1 where the epoch's cost is within every limit, 0 where it is not, NaN where it was not measured."""
        within = np.all(self.costs <= np.array(limits)[:, None], axis=0).astype(float)
        within[np.isnan(self.costs).any(axis=0)] = np.nan
        return within

    @property
    def epoch_steps(self) -> float:
        """Environment steps of an epoch."""
        return float(np.median(np.diff(self.steps, prepend=0.0)))

    def in_epochs_of(self, steps: float) -> RunRecord:
        """The run as if its epochs were that long: what is shorter is averaged, the last as far as it has come."""
        if steps <= self.epoch_steps:
            return self
        epoch = np.ceil(self.steps / steps - 1e-9)
        last = np.flatnonzero(np.append(epoch[1:] > epoch[:-1], True))
        parts = np.split(np.arange(len(epoch)), last[:-1] + 1)

        def averaged(values: np.ndarray) -> np.ndarray:
            return np.stack([mean_over_last(values[..., part]) for part in parts], axis=-1)

        return replace(
            self,
            steps=self.steps[last],
            wall_seconds=self.wall_seconds[last],
            reward=averaged(self.reward),
            costs=averaged(self.costs),
            cumulative_costs=self.cumulative_costs[:, last],
            eval_reward=averaged(self.eval_reward),
            eval_costs=averaged(self.eval_costs),
        )


@dataclass(frozen=True)
class Unread:
    """A run that the report leaves out, and why."""

    path: Path
    reason: str


def load_runs(paths: Sequence[str | Path]) -> tuple[list[RunRecord], list[Unread]]:
    """All runs in and below `paths`. One that cannot be read, or has no epoch yet, is told apart, not fatal."""
    runs, unread = [], []
    for path in find_runs(paths):
        try:
            runs.append(read_run(path))
        except (UserError, OSError) as error:
            unread.append(Unread(path, str(error)))
    return runs, unread


def find_runs(paths: Sequence[str | Path]) -> list[Path]:
    """The run directories in and below `paths`, each once, sorted."""
    for path in paths:
        if not Path(path).is_dir():
            raise RunDirectoryError(f"{path} is not a directory; give run directories, or directories above them")
    return sorted({found.resolve() for path in paths for found in _walk(Path(path))})


def read_run(path: Path) -> RunRecord:
    """The run in directory `path`, which may still be training."""
    settings, lines = read_config(path), read_metrics(path)
    if not lines:
        raise RunDirectoryError(f"{path} has no finished epoch yet")
    constraints = _check_settings(path, settings)

    def column(key: str) -> np.ndarray:
        return np.array([_number(path, key, line.get(key)) for line in lines])

    def columns(key: str) -> np.ndarray:
        return np.array([column(name) for name in cost_names(key, constraints)]).reshape(constraints, len(lines))

    def limited(phase: str) -> np.ndarray:
        """The costs that the limit is on: their mean, or the statistic that the run was trained with."""
        statistic = settings["config"].get("constraint", "mean")
        return columns(f"{phase}/cost" if statistic == "mean" else f"{phase}/constrained_cost")

    run = RunRecord(
        path=path,
        settings=settings,
        steps=column("steps"),
        wall_seconds=column("wall_seconds"),
        reward=column("train/reward"),
        costs=limited("train"),
        cumulative_costs=columns("train/cumulative_cost"),
        eval_reward=column("eval/reward"),
        eval_costs=limited("eval"),
    )
    if not np.all(np.diff(run.steps, prepend=0.0) > 0):  # NaN too
        raise RunDirectoryError(f"the steps in {path / METRICS} do not grow from line to line")
    return run


def _check_settings(path: Path, settings: dict[str, Any]) -> int:
    """Refuse here what would break a figure or the page later; gives the number of constraints."""
    file = path / CONFIG
    require_fields(settings, {"off_policy": bool}, file)
    limits = settings["cost_limit"]
    if not limits:
        raise RunDirectoryError(f"{path} has an empty cost_limit; an unconstrained run's is infinite")
    if len(limits) > MOST_CONSTRAINTS:
        raise RunDirectoryError(f"{file} has {len(limits)} cost limits; a report shows at most {MOST_CONSTRAINTS}")
    for limit in limits:
        if not (limit == math.inf or _number(path, "cost_limit", limit) >= 0):
            raise RunDirectoryError(f"a cost_limit in {file} must be >= 0, got {limit}")
    for name in ("steps", "seed"):
        _number(path, name, settings[name])
    shown = {name: settings[name] for name in ("env", "algorithm", "preset")} | settings["config"]
    for name, value in shown.items():
        for text in (name, value if isinstance(value, str) else repr(value)):
            if len(text) > LONGEST_NAME or not text.isprintable():
                raise RunDirectoryError(
                    f"{file} has a name that no figure has room for: {reprlib.repr(name)} is {reprlib.repr(value)}"
                )
    return len(limits)


def _walk(path: Path) -> Iterator[Path]:
    for directory, below, files in os.walk(path):
        if CONFIG in files and METRICS in files:
            below.clear()  # checkpoints and films hold no further runs
            yield Path(directory)


def _number(path: Path, name: str, value: Any) -> float:
    """NaN for what was not measured, and for what is no number."""
    if not isinstance(value, int | float) or (isinstance(value, float) and not math.isfinite(value)):
        return math.nan
    if abs(value) > LARGEST_NUMBER:
        raise RunDirectoryError(f"{name} of {path} is {reprlib.repr(value)}, beyond what can be drawn")
    return float(value)
