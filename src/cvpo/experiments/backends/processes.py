"""Runs in processes of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cvpo.experiments.backends.worker_process import WorkerProcess
from cvpo.experiments.status import Status, latest_metrics
from cvpo.machine import usable_cores
from cvpo.runs.directory import METRICS


class LocalPool:
    """At most `workers` processes at once, each with `cores` cores; by default as many as the cores suffice for."""

    def __init__(self, statuses: Sequence[Status], workers: int | None, cores: int, retries: int) -> None:
        self.concurrency = workers or max(1, usable_cores() // cores)
        self._statuses, self._cores, self._retries = statuses, cores, retries
        self._running: list[tuple[Status, WorkerProcess]] = []
        self._sizes: dict[Path, int] = {}  # of each run's metrics when they were last read

    def advance(self) -> None:
        for status, process in list(self._running):
            outcome = process.poll()
            if outcome is not None:
                self._running.remove((status, process))
                if outcome.kind == "done":
                    status.state = "done"
                elif outcome.kind == "failed":
                    status.fail(outcome.error)
                else:
                    status.died(outcome.error, self._retries)
            self._read(status)
        for status in self._statuses:
            if status.state == "waiting" and len(self._running) < self.concurrency:
                try:
                    self._running.append((status, WorkerProcess(status.directory, self._cores)))
                except OSError as error:
                    status.fail(f"its process could not be started: {error}")
                else:
                    status.state = "running"

    def stop(self) -> None:
        for _, process in self._running:
            process.ask_to_stop()  # all at once, before waiting for each
        for _, process in self._running:
            process.stop()

    def _read(self, status: Status) -> None:
        metrics = status.directory / METRICS
        try:
            size = metrics.stat().st_size
        except OSError:
            size = 0
        if self._sizes.get(metrics) != size:
            self._sizes[metrics] = size
            status.latest = latest_metrics(status.directory)
