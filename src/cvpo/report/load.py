"""Run directories as records of arrays."""

from __future__ import annotations

import math
import os
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cvpo.errors import UserError
from cvpo.metric_names import cost_names
from cvpo.report.statistics import mean_over_last
from cvpo.runs.directory import (
    CONFIG,
    ERROR,
    LOCK,
    METRICS,
    SPEC,
    RunDirectoryError,
    read_config,
    read_metrics,
)
from cvpo.runs.strict_json import require_fields

# What a run directory may ask of a report. Anybody may have written it, and one run must not stop or stall the others.
LONGEST_NAME = 200
LARGEST_NUMBER = 1e30
MOST_CONSTRAINTS = 50
MOST_METRICS = 500
MOST_OF_ERROR = 20_000  # characters
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
    metrics: Mapping[str, np.ndarray]  # all that was logged, by its name, as it was logged
    error: str | None  # what ended it

    @property
    def env(self) -> str:
        return str(self.settings["env"])

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
    def statistic(self) -> str:
        """What the limits are on: "mean", or a quantile or CVaR of the episodes' costs."""
        return str(self.settings["config"].get("constraint", "mean"))

    @property
    def cost_keys(self) -> tuple[str, ...]:
        """The names of the costs in the environment, if the run says them."""
        keys = self.settings["config"].get("cost_keys")
        return tuple(map(str, keys)) if isinstance(keys, list) and len(keys) == len(self.limits) else ()

    @property
    def limited_metrics(self) -> list[list[str]]:
        """The logged names of the costs [m] that the limits are on: of training, and of evaluation."""
        name = "cost" if self.statistic == "mean" else "constrained_cost"
        return [cost_names(f"{phase}/{name}", len(self.limits)) for phase in ("train", "eval")]

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
        return within_limits(self.costs, limits)

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
    error: str | None = None


def load_runs(paths: Sequence[str | Path]) -> tuple[list[RunRecord], list[Unread]]:
    """All runs in and below `paths`. One that cannot be read, or has no epoch yet, is told apart, not fatal."""
    return RunReader().load(find_runs(paths))


class RunReader:
    """Reads runs, and again only those that have changed since."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[Any, RunRecord | Unread]] = {}

    def load(self, found: Sequence[Path]) -> tuple[list[RunRecord], list[Unread]]:
        """The runs in these directories, each once, and those that are left out."""
        runs: dict[str, RunRecord] = {}
        unread = []
        self._known = {path: (state := self.state(path), self._read(path, state)) for path in found}
        for _, run in self._known.values():
            if isinstance(run, Unread):
                unread.append(run)
                continue
            # Every run has an id of its own: two directories with the same one hold the same run, not two seeds.
            name = run.settings["provenance"]["id"]
            short, long = sorted([run, runs.get(name, run)], key=lambda copy: len(copy.steps))
            if name in runs:
                unread.append(Unread(short.path, f"is a copy of {long.path}, and counted once", short.error))
            runs[name] = long
        return list(runs.values()), unread

    def state(self, path: Path) -> Any:
        """What differs once a run has changed."""
        found: list[Any] = []
        for name in (CONFIG, METRICS, ERROR):
            try:
                status = (path / name).lstat()
                found.append((status.st_mtime_ns, status.st_size, status.st_ino))
            except OSError:
                found.append(None)
        return found

    def _read(self, path: Path, state: Any) -> RunRecord | Unread:
        if path in self._known and self._known[path][0] == state:
            return self._known[path][1]
        try:
            return read_run(path)
        except (UserError, OSError) as error:
            return Unread(path, str(error), read_error(path))


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
    metrics = _columns(path, lines)
    missing = np.full(len(lines), np.nan)
    run = RunRecord(
        path=path,
        settings=settings,
        steps=metrics.get("steps", missing),
        wall_seconds=metrics.get("wall_seconds", missing),
        reward=metrics.get("train/reward", missing),
        costs=missing[None],
        cumulative_costs=logged(metrics, cost_names("train/cumulative_cost", constraints)),
        eval_reward=metrics.get("eval/reward", missing),
        eval_costs=missing[None],
        metrics=metrics,
        error=read_error(path),
    )
    train, evaluation = run.limited_metrics
    run = replace(run, costs=logged(metrics, train), eval_costs=logged(metrics, evaluation))
    if not np.all(np.diff(run.steps, prepend=0.0) > 0):  # NaN too
        raise RunDirectoryError(f"the steps in {path / METRICS} do not grow from line to line")
    return run


def logged(metrics: Mapping[str, np.ndarray], names: Sequence[str]) -> np.ndarray:
    """[n, T] the metrics of these names; NaN where there is none."""
    missing = np.full(len(next(iter(metrics.values()), ())), np.nan)
    return np.array([metrics.get(name, missing) for name in names])


def within_limits(costs: np.ndarray, limits: Sequence[float]) -> np.ndarray:
    """[T] of costs [m, T]: 1 within every limit, 0 where not, NaN where one was not measured."""
    within = np.all(costs <= np.array(limits)[:, None], axis=0).astype(float)
    within[np.isnan(costs).any(axis=0)] = np.nan
    return within


def read_error(path: Path) -> str | None:
    """The end of what the run says of the error that ended it: its last lines say most."""
    try:
        # Not through a link: it may point to a file that is nobody's business.
        descriptor = os.open(path / ERROR, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            file.seek(-min(MOST_OF_ERROR, os.fstat(descriptor).st_size), os.SEEK_END)
            text = file.read(MOST_OF_ERROR).decode(errors="replace").strip()
    except OSError:
        return None
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "�" for letter in text) or None


def _columns(path: Path, lines: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Everything that is a number in any of the lines, by its name."""
    names = dict.fromkeys(name for line in lines for name, value in line.items() if isinstance(value, int | float))
    if len(names) > MOST_METRICS:
        raise RunDirectoryError(f"{path / METRICS} has {len(names)} metrics; a report shows at most {MOST_METRICS}")
    for name in names:
        if len(name) > LONGEST_NAME or not name.isprintable():
            raise RunDirectoryError(f"{path / METRICS} has a metric that no page has room for: {reprlib.repr(name)}")
    return {name: np.array([_number(path, name, line.get(name)) for line in lines]) for name in names}


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
        begun = CONFIG in files and not {METRICS, ERROR, LOCK}.isdisjoint(files)
        failed = SPEC in files and ERROR in files  # of a sweep, before it had settings
        if begun or failed:
            below.clear()  # checkpoints and films hold no further runs
            yield Path(directory)


def _number(path: Path, name: str, value: Any) -> float:
    """NaN for what was not measured, and for what is no number."""
    if not isinstance(value, int | float) or (isinstance(value, float) and not math.isfinite(value)):
        return math.nan
    if abs(value) > LARGEST_NUMBER:
        raise RunDirectoryError(f"{name} of {path} is {reprlib.repr(value)}, beyond what can be drawn")
    return float(value)
