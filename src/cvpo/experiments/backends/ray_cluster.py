"""Runs as tasks of a Ray cluster, whose machines have cvpo installed and may or may not share this one's disk.

A task starts the same worker process as the local pool does, in the caller's directory if it sees it, otherwise in a
temporary one, and streams what is new there back after every epoch. If the process or the machine is lost, the caller
submits the run again with the files that it has by then; Ray's own retries would know only those of the beginning.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from cvpo.envs.on_ray import import_ray
from cvpo.errors import BadValue, Unavailable
from cvpo.experiments.backends.mirror import Changes, apply_changes, collect_changes
from cvpo.experiments.backends.worker_process import WorkerProcess
from cvpo.experiments.status import Status, latest_metrics
from cvpo.runs.array_file import SUFFIX
from cvpo.runs.atomic import why_not_written
from cvpo.runs.directory import CHECKPOINTS

TOKEN = ".sweep-token"
POLL_SECONDS = 1.0
CONNECT_SECONDS = 30


class Event(NamedTuple):
    """What a task tells the caller."""

    kind: Literal["running", "files wanted", "done", "failed", "died"]
    error: str = ""
    latest: dict[str, Any] = {}  # noqa: RUF012  (never changed)
    changes: Changes | None = None  # None where the caller sees the directory itself


class RayCluster:
    """`address` is "local" for a Ray started here and now, "auto", or "host:port" of a running one."""

    def __init__(
        self, statuses: Sequence[Status], output: Path, address: str, workers: int | None, cores: int, retries: int
    ) -> None:
        self._ray = import_ray()
        if address.startswith("ray://"):
            raise BadValue(
                f"tasks cannot stream their results through Ray Client, got {address}; start the sweep on a machine of "
                "the cluster (ray job submit does so from anywhere) with --ray auto"
            )
        self._started = not self._ray.is_initialized()
        if address == "local" and self._started:
            slots = None if workers is None else workers * cores
            self._ray.init(address="local", num_cpus=slots, include_dashboard=False, log_to_driver=False)
        elif self._started:
            join(self._ray, address)
        self._statuses, self._output, self._cores, self._retries = statuses, output.resolve(), cores, retries
        self._token = uuid.uuid4().hex
        (output / TOKEN).write_text(self._token)
        # Ray would retry by itself, with what the run had when it was first submitted.
        self._task = self._ray.remote(num_cpus=cores, max_retries=0)(train_remotely)
        self._submitted: dict[Any, Status] = {}  # by the stream of its events
        self._most = workers or len(statuses)
        self._submit_waiting()

    @property
    def concurrency(self) -> int:
        return min(self._most, max(1, int(self._ray.cluster_resources().get("CPU", 1)) // self._cores))

    def advance(self) -> None:
        streams = list(self._submitted)
        if not streams:
            return
        ready, _ = self._ray.wait(streams, num_returns=len(streams), timeout=0)
        for stream in ready:
            status = self._submitted[stream]
            event = self._next(stream)
            if event.changes is not None:
                try:
                    apply_changes(status.directory, event.changes)
                except OSError as error:
                    del self._submitted[stream]
                    self._cancel(stream)
                    status.fail(why_not_written(status.directory, error))
                    continue
            status.latest = event.latest or status.latest
            if event.kind == "running":
                status.state = "running"
                continue
            del self._submitted[stream]
            if event.kind == "done":
                status.state = "done"
            elif event.kind == "failed":
                status.fail(event.error)
            elif event.kind == "files wanted":
                everything, _ = collect_changes(status.directory, {})
                self._submit(status, everything)
            else:
                status.died(event.error, self._retries)
        self._submit_waiting()

    def stop(self) -> None:
        for stream in self._submitted:
            self._cancel(stream)
        self.close()

    def _cancel(self, stream: Any) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.cancel(stream)

    def close(self) -> None:
        (self._output / TOKEN).unlink(missing_ok=True)
        if self._started:
            self._ray.shutdown()

    def _submit_waiting(self) -> None:
        submitted = {id(status) for status in self._submitted.values()}  # they wait too until Ray has cores for them
        for status in self._statuses:
            if status.state == "waiting" and id(status) not in submitted and len(self._submitted) < self._most:
                self._submit(status)

    def _submit(self, status: Status, files: Changes | None = None) -> None:
        # In a list, Ray hands over the reference alone: a task that sees the caller's disk fetches nothing.
        boxed = None if files is None else [self._ray.put(files)]
        arguments = status.directory.resolve(), self._output / TOKEN, self._token, self._cores, boxed
        self._submitted[self._task.remote(*arguments)] = status

    def _next(self, stream: Any) -> Event:
        try:
            return self._ray.get(next(stream))
        except self._ray.exceptions.RayTaskError as error:
            return Event("failed", str(error))
        except (self._ray.exceptions.RayError, StopIteration) as error:
            return Event("died", str(error) or type(error).__name__)


def train_remotely(
    directory: Path, token_file: Path, token: str, cores: int, files: list[Any] | None
) -> Iterator[Event]:
    """The Ray task: train a run, and tell the caller after every epoch."""
    with contextlib.ExitStack() as stack:
        shared = token_file.exists() and token_file.read_text() == token
        if not shared:
            if files is None:
                yield Event("files wanted")
                return
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cvpo-run-")))
            apply_changes(directory, import_ray().get(files[0]))
        # Before the process starts: what it writes from its first moment on is new to the caller.
        _, sent = collect_changes(directory, {})
        saved = _newest_checkpoint(directory)
        process = WorkerProcess(directory, cores, temporary=not shared)
        stack.callback(process.stop)
        yield Event("running", latest=latest_metrics(directory))
        while True:
            outcome = process.poll()
            if outcome is not None or _newest_checkpoint(directory) != saved:
                saved = _newest_checkpoint(directory)
                changes = None
                if not shared:
                    changes, sent = collect_changes(directory, sent)
                kind, error = outcome or ("running", "")
                yield Event(kind, error, latest_metrics(directory), changes)
            if outcome is not None:
                return
            time.sleep(POLL_SECONDS)


def _newest_checkpoint(directory: Path) -> str:
    return max((path.name for path in (directory / CHECKPOINTS).glob(f"epoch-*{SUFFIX}")), default="")


def join(ray: Any, address: str) -> None:
    """Become a driver of a running cluster."""
    try:
        host, _, port = address.rpartition(":")
        if port.isdigit():  # Ray itself would try for a quarter of an hour
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
        ray.init(address=address, log_to_driver=False)
    except (OSError, RuntimeError, ray.exceptions.RayError) as error:
        raise Unavailable(
            f"cannot join the Ray cluster {address}: {' '.join(str(error).split())}. It must be running (ray start), "
            "and this machine must have its token; docs/experiments.md has the commands"
        ) from error
