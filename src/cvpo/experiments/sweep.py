"""`sweep`: train every spec of a list in its own directory, here or on a cluster, and go on after every stop."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from cvpo.errors import BadValue
from cvpo.experiments.backends.processes import LocalPool
from cvpo.experiments.backends.ray_cluster import RayCluster
from cvpo.experiments.claim import claimed
from cvpo.experiments.display import SweepTable
from cvpo.experiments.spec import RunSpec, is_finished
from cvpo.experiments.status import Backend, Status, latest_metrics
from cvpo.runs.atomic import why_not_written
from cvpo.runs.directory import CHECKPOINTS, ERROR, RunDirectoryError, locked
from cvpo.training.interrupts import Interrupted, Interrupts

POLL_SECONDS = 0.3


def sweep(
    specs: Sequence[RunSpec],
    output: str | Path,
    *,
    workers: int | None = None,
    cores: int = 1,
    ray: str | None = None,
    retries: int = 3,
    discard_checkpoints: bool = False,
    console: Console | None = None,
) -> list[Status]:
    """Train every spec in output/TASK/METHOD/seed-N and return how each ended ("done" or "failed").

    Runs that are finished there already are kept, half-finished ones resume, failed ones are tried again.

    workers: runs at once; by default as many as the cores suffice for.
    cores: for each run, of its own.
    ray: "local", "auto" or an address: train on a Ray cluster instead of in processes of this machine.
    retries: how often a run goes on after its process died. One that raises an error is not tried again.
    discard_checkpoints: delete those of a run once it is done; they hold its replay, which is most of its size.
    """
    for name, value, least in (("workers", workers, 1), ("cores", cores, 1), ("retries", retries, 0)):
        if value is not None and value < least:
            raise BadValue(f"{name} must be >= {least}, got {value}")
    output = Path(output)
    check(specs)
    with claimed(output, [spec.path for spec in specs]):
        return _sweep(specs, output, workers, cores, ray, retries, discard_checkpoints, console)


def _sweep(
    specs: Sequence[RunSpec],
    output: Path,
    workers: int | None,
    cores: int,
    ray: str | None,
    retries: int,
    discard_checkpoints: bool,
    console: Console | None,
) -> list[Status]:
    statuses = prepare(specs, output)
    with SweepTable(statuses, console) as table:
        if any(status.state == "waiting" for status in statuses):
            backend: Backend
            if ray is None:
                backend = LocalPool(statuses, workers, cores, retries)
            else:
                backend = RayCluster(statuses, output, ray, workers, cores, retries)
            _advance_to_end(statuses, backend, table, discard_checkpoints)
        if discard_checkpoints:
            _discard_checkpoints(statuses)  # of runs that were done before, too
        failed = [status for status in statuses if status.state == "failed"]
        table.message(f"{len(statuses) - len(failed)} of {len(statuses)} runs are done in {output}")
        for status in failed:
            table.message(f"failed: {status.spec.path}: {status.short_error} (see {status.directory / ERROR})")
    return statuses


def check(specs: Sequence[RunSpec]) -> None:
    """Refuse what cannot be trained, before anything is started."""
    if not specs:
        raise BadValue("a sweep needs at least one run, got none")
    paths: dict[Path, RunSpec] = {}
    for spec in specs:
        spec.check()
        if spec.path in paths:
            raise BadValue(f"two runs of the sweep have the directory {spec.path}: {paths[spec.path]} and {spec}")
        paths[spec.path] = spec


def prepare(specs: Sequence[RunSpec], output: Path) -> list[Status]:
    """A directory with its spec for each run; what is done there already is marked so."""
    statuses = [Status(spec, output / spec.path) for spec in specs]
    for status in statuses:
        if is_finished(status.spec, status.directory):
            status.state = "done"
        else:
            try:
                status.spec.write(status.directory)
            except OSError as error:
                status.fail(why_not_written(status.directory, error))
        status.latest = latest_metrics(status.directory)
    return statuses


def _discard_checkpoints(statuses: Sequence[Status]) -> None:
    for status in statuses:
        if status.state == "done" and (status.directory / CHECKPOINTS).exists():
            with contextlib.suppress(RunDirectoryError), locked(status.directory):  # someone may be training it further
                shutil.rmtree(status.directory / CHECKPOINTS, ignore_errors=True)


def _advance_to_end(statuses: Sequence[Status], backend: Backend, table: SweepTable, discard_checkpoints: bool) -> None:
    try:
        with Interrupts() as interrupts:
            while any(status.state in ("waiting", "running") for status in statuses):
                backend.advance()
                if discard_checkpoints:
                    _discard_checkpoints(statuses)
                table.update(backend.concurrency)
                interrupts.check()
                time.sleep(POLL_SECONDS)
    except Interrupted as stop:
        done = sum(status.state == "done" for status in statuses)
        table.message(f"stopping: {done} of {len(statuses)} runs are done; the same command goes on with the others")
        raise stop.as_exit() from None
    finally:
        backend.stop()
