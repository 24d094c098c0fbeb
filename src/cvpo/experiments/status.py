"""Where each run of a sweep stands."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from cvpo.errors import UserError
from cvpo.experiments.spec import RunSpec
from cvpo.runs.atomic import write_text
from cvpo.runs.directory import ERROR, read_metrics

State = Literal["waiting", "running", "done", "failed"]


@dataclass
class Status:
    """A run of a sweep and how far it has come."""

    spec: RunSpec
    directory: Path
    state: State = "waiting"
    deaths: int = 0  # processes that died under it
    error: str = ""
    latest: dict[str, Any] = field(default_factory=dict)  # metrics of the last epoch

    @property
    def steps(self) -> int:
        return int(self.latest.get("steps", 0))

    @property
    def speed(self) -> float:
        """Environment steps per second so far; NaN before the first epoch."""
        seconds = self.latest.get("wall_seconds", 0.0)
        return self.steps / seconds if seconds > 0 else math.nan

    @property
    def short_error(self) -> str:
        """What a traceback ends with: the error, and where in the environment it was."""
        lines = self.error.strip().splitlines()
        frames = [number for number, line in enumerate(lines) if line.startswith(" ")]
        return " ".join(lines[frames[-1] + 1 if frames else 0 :][:2])

    def fail(self, error: str) -> None:
        self.state, self.error = "failed", error
        with contextlib.suppress(OSError):  # a full disk ends this run, not the sweep
            write_text(self.directory / ERROR, error.rstrip() + "\n")

    def died(self, reason: str, retries: int) -> None:
        """Its process is gone: it waits for another one, unless that has happened too often."""
        self.deaths += 1
        if self.deaths <= retries:
            self.state = "waiting"
        else:
            self.fail(f"its process died {self.deaths} times, which is not tried again; the last time: {reason}")


class Backend(Protocol):
    """Somewhere that the runs of a sweep are trained."""

    @property
    def concurrency(self) -> int:
        """Runs at once."""

    def advance(self) -> None:
        """Start what can be started, and bring every status up to date. Does not wait."""

    def stop(self) -> None:
        """End everything that runs, without harm to what is saved."""


def latest_metrics(directory: Path) -> dict[str, Any]:
    """The newest epoch's metrics; none before the first."""
    try:
        return read_metrics(directory)[-1]
    except (UserError, IndexError):
        return {}


def remaining_seconds(statuses: Sequence[Status], concurrency: int) -> float:
    """How long the rest of a sweep takes, from the speeds seen so far; NaN if there are none."""
    speeds: dict[str, list[float]] = {}
    for status in statuses:
        if status.speed > 0:
            speeds.setdefault(status.spec.algorithm, []).append(status.speed)
    everyone = [speed for group in speeds.values() for speed in group]
    if not everyone:
        return math.nan
    seconds = 0.0
    for status in statuses:
        if status.state in ("waiting", "running"):
            known = [status.speed] if status.speed > 0 else speeds.get(status.spec.algorithm, everyone)
            seconds += max(status.spec.steps - status.steps, 0) * sum(1 / speed for speed in known) / len(known)
    return seconds / concurrency
