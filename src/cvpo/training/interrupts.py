"""Ctrl-C and SIGTERM, taken at the next safe point instead of anywhere."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class Interrupted(Exception):
    """A signal asked the run to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Interrupts:
    """While open, a signal only leaves a note, on which `check` raises Interrupted; a second one acts at once."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self._noted: int | None = None
        self._previous: dict[int, object] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():  # Python lets no other thread set handlers
            self._previous = {number: signal.signal(number, self._note) for number in self.SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def check(self) -> None:
        if self._noted is not None:
            raise Interrupted(self._noted)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous = {}
