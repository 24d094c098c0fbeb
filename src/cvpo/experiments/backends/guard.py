"""A small process beside a worker that lets nothing outlive what it belongs to.

An environment may hang in code that no signal and no other thread of its process gets past, and it may do so in a
process of its own. So neither the worker nor its environments can be relied on to end by themselves. The guard is a
process that does nothing but wait: when the sweep is gone, or the worker, it ends the worker and all that it started.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
from pathlib import Path

GRACE_SECONDS = 5.0  # for a worker without a sweep to end in order


def start_guard(remove: Path | None = None) -> None:
    """To be called by a worker before it has threads. Its standard input is a pipe that the sweep holds open.

    remove: a directory that is of no use without the sweep.
    """
    worker = os.getpid()
    if os.getpgid(0) != worker:
        return  # started by hand: the group is the terminal's
    worker_lives, held = os.pipe()  # the worker holds the other end until it is gone, however that comes about
    if os.fork() == 0:
        try:
            os.close(held)
            os.setsid()
            _guard(worker, sweep=0, worker_lives=worker_lives, remove=remove)
        finally:
            os._exit(0)
    os.close(worker_lives)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _guard(worker: int, sweep: int, worker_lives: int, remove: Path | None) -> None:
    readable: list[int] = []
    while not readable:
        ready, _, _ = select.select([sweep, worker_lives], [], [])
        readable = [end for end in ready if not os.read(end, 1)]  # nothing to read: it was closed
    if worker_lives not in readable:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGTERM)
        select.select([worker_lives], [], [], GRACE_SECONDS)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker, signal.SIGKILL)
    if remove is not None and sweep in readable:
        shutil.rmtree(remove, ignore_errors=True)
