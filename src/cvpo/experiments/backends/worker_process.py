"""Starting, watching and ending a worker process."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path
from typing import Literal, NamedTuple

from cvpo.experiments.backends.cores import CoreClaim
from cvpo.runs.directory import ERROR, WORKER_LOG

GRACE_SECONDS = 30  # to the next point at which a run can be left; compiling may take that long


RAISED = 3
"""The worker's exit code after an error of the run itself, which another attempt would meet again."""


class Outcome(NamedTuple):
    """How a process ended: the run is done, it raised an error, or the process was gone without a word."""

    kind: Literal["done", "failed", "died"]
    error: str = ""


class WorkerProcess:
    """A process that trains the run whose spec.json is in `directory`, on cores of its own.

    temporary: the directory is a copy, of no use when the process that starts this one is gone.
    """

    def __init__(self, directory: Path, cores: int, temporary: bool = False) -> None:
        self._directory = directory
        (directory / ERROR).unlink(missing_ok=True)
        self._claim = CoreClaim(cores)
        # -P: `-m` alone would put the current directory before everything that is installed
        command = [sys.executable, "-P", "-m", "cvpo.experiments.backends.worker", str(directory)]
        command += ["--temporary"] if temporary else []
        try:
            with self._claim.inherited(), (directory / WORKER_LOG).open("ab") as log:
                # A session of its own: a Ctrl-C in the terminal is for the sweep, which then ends its workers in order.
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
                )
        except OSError:
            self._claim.release()
            raise

    def poll(self) -> Outcome | None:
        """How it ended; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        self._release()
        if code == 0:
            return Outcome("done")
        if code == RAISED:
            error = self._directory / ERROR
            unwritten = f"an error that could not be written to {error}; if its disk is full, free some space"
            return Outcome("failed", error.read_text() if error.exists() else unwritten + self._end_of_log(30))
        cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return Outcome("died", f"{cause}{self._end_of_log()}")

    def ask_to_stop(self) -> None:
        """It saves nothing further, as the last epoch is saved already, and ends soon."""
        if self._process.poll() is None:
            self._process.terminate()

    def stop(self) -> None:
        """End it, by force if it takes too long."""
        self.ask_to_stop()
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
        finally:  # also if the wait is broken off by a second Ctrl-C
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._release()

    def _release(self) -> None:
        self._claim.release()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _end_of_log(self, lines: int = 10) -> str:
        text = (self._directory / WORKER_LOG).read_text(errors="replace").strip()
        return ". The end of its output:\n" + "\n".join(text.splitlines()[-lines:]) if text else ""
