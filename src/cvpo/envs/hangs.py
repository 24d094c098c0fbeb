"""Environments that do not answer: a word after a minute, and a limit on the time."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from cvpo.envs.errors import EnvironmentTimeout

T = TypeVar("T")

HINT_SECONDS = 60.0


class Watch:
    """Says once, after a minute, which environment a call waits for: `with watch: environments.step(...)`."""

    def __init__(self, where: Callable[[], str], seconds: float | None = None) -> None:
        self._where, self._seconds = where, HINT_SECONDS if seconds is None else seconds
        self._since: float | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    def __enter__(self) -> None:
        self._since = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._since = None

    def close(self) -> None:
        self._closed.set()

    def _look(self) -> None:
        told = None
        while not self._closed.wait(self._seconds / 4):
            since = self._since
            if since is not None and since != told and time.monotonic() - since > self._seconds:
                told = since
                print(
                    f"{self._where()}, has not answered for {self._seconds:g} s. To give up on it after a time, set "
                    "--env-timeout SECONDS (in Python: the setting env_timeout).",
                    file=sys.stderr,
                    flush=True,
                )


def too_late(where: str, seconds: float) -> EnvironmentTimeout:
    return EnvironmentTimeout(
        f"{where}, did not answer within {seconds:g} s. The finished epochs are saved. If it may take that long, raise "
        "--env-timeout"
    )


def call_directly(function: Callable[..., T], *arguments: Any) -> T:
    return function(*arguments)


class Thread:
    """Calls functions in one thread of its own, and gives up on one that takes too long."""

    def __init__(self, timeout: float, too_late: Callable[[float], Exception]) -> None:
        self._timeout, self._too_late, self._stuck = timeout, too_late, False
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # a daemon: a call that never returns must not keep the process from ending
        threading.Thread(target=self._run, daemon=True).start()

    def __call__(self, function: Callable[..., T], *arguments: Any) -> T:
        self._calls.put((function, arguments))
        try:
            result, error = self._results.get(timeout=0 if self._stuck else self._timeout)
        except queue.Empty:
            self._stuck = True  # nothing that is asked of it from now on is waited for
            raise self._too_late(self._timeout) from None
        if error is not None:
            raise error
        return result

    def _run(self) -> None:
        while True:
            function, arguments = self._calls.get()
            try:
                self._results.put((function(*arguments), None))
            except BaseException as error:
                self._results.put((None, error))
