"""N copies of an environment, each in a process of its own: of this interpreter or of another one."""

from __future__ import annotations

import errno
import mmap
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cvpo.envs.copies import Step, block_layout, common_description, flat, problem_text, read_step
from cvpo.envs.errors import BadEnvironment, EnvironmentFailed, Place, WorkerDied
from cvpo.envs.hangs import too_late
from cvpo.envs.worker.block import Block, block_size
from cvpo.envs.worker.process import FAILED, MESSAGE, STEP, Channel

FOLDER = Path(__file__).parent / "worker"
DEFAULT_TIMEOUT = 300.0  # seconds for an answer
GRACE_SECONDS = 5.0  # to close an environment in order

# Loads the folder as a package of a name that nobody else uses; the name cvpo may be taken, by this very package.
LAUNCH = """
import importlib.util, sys
if sys.version_info < (3, 8):
    sys.exit("cvpo: an environment's interpreter must be Python 3.8 or newer, this is " + sys.version)
folder = sys.argv[1]
spec = importlib.util.spec_from_file_location(
    "_cvpo_worker", folder + "/__init__.py", submodule_search_locations=[folder])
sys.modules["_cvpo_worker"] = importlib.util.module_from_spec(spec)
from _cvpo_worker.process import main
main(*sys.argv[2:])
"""


class WorkerProcess:
    """One process that runs a copy."""

    def __init__(self, python: str, memory: int) -> None:
        opened: list[int] = []
        try:
            for _ in range(3):
                opened += os.pipe()
            commands, to_worker, from_worker, replies, lifeline, self._lifeline = opened
            theirs = (commands, replies, memory, lifeline)
            command = [python, "-c", LAUNCH, str(FOLDER), str(os.getpid()), *map(str, theirs)]
            # A session of its own: a Ctrl-C is for this process, which then ends its workers in order. What the worker
            # prints goes to this process's errors, as standard output may be what somebody else reads.
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=2,
                pass_fds=theirs,
                start_new_session=True,
                env=_one_thread_each(),
            )
        except OSError as error:
            for descriptor in opened:
                os.close(descriptor)
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise BadEnvironment(
                    f"too many open files: {error}. Each environment in a process of its own takes three; raise the "
                    "limit (ulimit -n) or lower envs and eval_episodes"
                ) from error
            raise BadEnvironment(f"cannot run the interpreter {python}: {error}") from error
        for descriptor in (commands, replies, lifeline):
            os.close(descriptor)
        self.channel = Channel(from_worker, to_worker)

    def how_it_ended(self) -> str:
        try:
            code = self.process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def ask_to_end(self) -> None:
        os.close(self.channel.writing)

    def end(self, deadline: float) -> None:
        """Wait for its end, which is by force after the deadline."""
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.channel.reading)
        os.close(self._lifeline)


class WorkerCopies:
    """Copies in processes. They step at the same time; observations and actions go through shared memory."""

    def __init__(
        self,
        source: dict[str, Any],
        python: str | None,
        count: int,
        options: dict[str, Any],
        place: Place,
        timeout: float | None,
        render: bool = False,
    ) -> None:
        """source: as `sources.for_worker` makes it; python: None for this interpreter."""
        self.count, self._place, self._timeout = count, place, timeout or DEFAULT_TIMEOUT
        self._python = python or sys.executable
        self._memory = _shared_file()
        self._workers: list[WorkerProcess] = []
        self._pending: set[int] = set()
        self._poll = select.poll()
        self._index: dict[int, int] = {}  # of the worker behind a pipe
        try:
            for i in range(count):
                self._workers.append(WorkerProcess(self._python, self._memory))
                self._index[self._workers[i].channel.reading] = i
                self._poll.register(self._workers[i].channel.reading, select.POLLIN)
            path = [] if python else sys.path
            make = {"do": "make", "source": source, "options": options, "render": render, "path": path}
            patience = max(self._timeout, DEFAULT_TIMEOUT)  # loading a large simulator takes longer than a step
            made = self.ask([make | {"try_out": i == 0} for i in range(count)], patience)
            self.description = common_description(made)
            layout = block_layout(self.description, count, options)
            os.ftruncate(self._memory, block_size(layout))
            self.block = Block(layout, mmap.mmap(self._memory, block_size(layout)))
            share = {"do": "share", "layout": layout}
            self.ask([share | {"index": i} for i in range(count)], patience)
        except BaseException:
            self.close()
            raise

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        self.ask([{"do": "reset", "seed": seed} for seed in seeds])
        return flat(self.description["observation"], self.block.obs)

    def step(self, action: np.ndarray) -> Step:
        self.block.action[:] = action
        for i in range(self.count):
            self._send(i, STEP)
        self._collect(self._timeout)
        return read_step(self.description["observation"], self.block)

    def ask(self, messages: Iterable[dict[str, Any]], timeout: float | None = None) -> list[dict[str, Any]]:
        """Send each worker its message and wait for the answers of all."""
        for i, message in zip(range(self.count), messages, strict=True):
            self._send(i, MESSAGE, message)
        return self._collect(timeout or self._timeout)

    def waiting_for(self) -> int:
        return min(self._pending, default=0)

    def close(self) -> None:
        for worker in self._workers:
            worker.ask_to_end()
        deadline = time.monotonic() + (0.0 if self._pending else GRACE_SECONDS)
        while self._workers:
            self._workers.pop().end(deadline)
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1

    def _send(self, i: int, kind: bytes, message: dict[str, Any] | None = None) -> None:
        try:
            self._workers[i].channel.send(kind, message)
        except BrokenPipeError:
            raise self._died(i) from None
        self._pending.add(i)

    def _collect(self, timeout: float) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = [{}] * self.count
        deadline = time.monotonic() + timeout
        while self._pending:
            ready = self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
            if not ready:
                raise too_late(self._place.of(self.waiting_for()), timeout)
            for descriptor, _ in ready:
                i = self._index[descriptor]
                try:
                    kind, answers[i] = self._workers[i].channel.receive()
                except EOFError:
                    raise self._died(i) from None
                self._pending.discard(i)
                if kind == FAILED:
                    raise self._failed(i, answers[i])
        return answers

    def _died(self, i: int) -> WorkerDied:
        how = self._workers[i].how_it_ended()
        if not hasattr(self, "block"):
            return WorkerDied(
                f"the process that should make environment {i} of {self.count} {how}; what it printed says more. "
                f"{self._python} must be Python 3.8 or newer with NumPy and the environment's packages"
            )
        return WorkerDied(
            f"the process of {self._place.of(i)}, {how}. The finished epochs are saved; what the process printed, if "
            "anything, says why"
        )

    def _failed(self, i: int, message: dict[str, Any]) -> Exception:
        if "problem" in message:
            return BadEnvironment(problem_text(message["problem"], self._place, i))
        where = self._place.of(i)
        return EnvironmentFailed(f"{message['error']}, raised by {where}:\n\n{message['traceback']}")


def _shared_file() -> int:
    """A file in memory without a name, so that nothing is left of it whatever happens to the processes."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("cvpo-environments")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _one_thread_each() -> dict[str, str]:
    """The environment variables of a worker: several processes with a thread for each core would be in their way."""
    libraries = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {name: "1" for name in libraries} | os.environ
