"""Ctrl-C and SIGTERM: answered at once, obeyed at the next safe point, and the second time without one.

Python runs a signal's handler between two of its own instructions: not while XLA compiles, which may take half a
minute. And an exception that such a handler raises inside JAX leaves it in a state in which the process ends with a
segmentation fault. So here the handlers do nothing. The system writes each signal to a pipe too, and a thread that
waits there says at once that it was heard, and ends the process itself if it is asked a second time.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

GRACE_SECONDS = 5.0  # until SIGTERM is obeyed without a safe point: it comes from a program, which asks only once


class Interrupted(BaseException):
    """A signal asked the run to stop. No error, so that nothing that handles errors stands in its way."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    def as_exit(self) -> BaseException:
        """What Python programs end with after such a signal."""
        return KeyboardInterrupt() if self.number == signal.SIGINT else SystemExit(128 + self.number)


class Interrupts:
    """While open, a signal only leaves a note, on which `check` raises Interrupted; a second one acts at once.

    This one is for code that may be left anywhere: the second signal has the effect it would have had without it.
    """

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


class TrainingInterrupts(Interrupts):
    """The same for code that must not be left in the middle: the second signal ends the process at once.

    `say` gets the answer to a first signal. `leave` runs before the process ends, and has a second for it.
    Where there is no second chance to be had, in a notebook or an interactive session, the process stays.
    Those opened inside of an open one share its note: a command opens one before it imports JAX. Interrupted leaves
    here as what Python programs end with after a signal, KeyboardInterrupt or SystemExit.

    `to_the_end`: the process ends after this one. Once a signal was obeyed, a second one still ends the process at once
    while Python and JAX clean up; as an exception it would only leave a traceback there.
    """

    _outermost: TrainingInterrupts | None = None

    def __init__(
        self,
        say: Callable[[str], None] | None = None,
        leave: Callable[[], None] = lambda: None,
        to_the_end: bool = False,
    ) -> None:
        super().__init__()
        self._say, self._leave, self._to_the_end = say or _to_stderr, leave, to_the_end
        self._outer: TrainingInterrupts | None = None

    def __enter__(self) -> TrainingInterrupts:
        outer = TrainingInterrupts._outermost
        if outer is not None:
            self._outer, self._replaced = outer, (outer._say, outer._leave)
            outer._say, outer._leave = self._say, self._leave
        elif threading.current_thread() is threading.main_thread():
            TrainingInterrupts._outermost = self
            self._pipe, write = os.pipe()
            os.set_blocking(write, False)
            self._previous_wakeup = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
            super().__enter__()
            self._write = write
            if self._to_the_end:
                atexit.register(self._end_deaf)  # before JAX registers its own, so that it runs after them
            self._watcher = threading.Thread(target=self._watch, name="cvpo-interrupts", daemon=True)
            self._watcher.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._outer is not None:
            self._outer._say, self._outer._leave = self._replaced
        elif TrainingInterrupts._outermost is self:
            if self._noted is None or not self._to_the_end:
                self._close()
            if error[0] is None and self._noted is not None:  # it came after the last safe point: not lost
                raise Interrupted(self._noted).as_exit()
        if isinstance(error[1], Interrupted):
            raise error[1].as_exit() from None

    def _close(self) -> None:
        self._restore()
        signal.set_wakeup_fd(self._previous_wakeup)
        os.write(self._write, b"\0")  # no signal has this number
        self._watcher.join()
        os.close(self._write)
        os.close(self._pipe)
        TrainingInterrupts._outermost = None

    def _end_deaf(self) -> None:
        """At its very end Python takes its handlers away: a second signal would kill the process then."""
        if self._noted is not None:
            for number in self.SIGNALS:
                signal.signal(number, signal.SIG_IGN)

    def check(self) -> None:
        if self._outer is not None:
            self._outer.check()
        else:
            super().check()

    def _note(self, number: int, frame: FrameType | None) -> None:
        pass

    def _watch(self) -> None:
        while True:
            timeout = GRACE_SECONDS if self._noted == signal.SIGTERM else None
            if not select.select([self._pipe], [], [], timeout)[0]:
                self._end(signal.SIGTERM)
            for number in os.read(self._pipe, 64):
                if number == 0:
                    return
                if number not in self.SIGNALS:
                    continue
                second, self._noted = self._noted is not None, self._noted or number
                if second and not _interactive():
                    self._end(number)
                with contextlib.suppress(Exception):  # a closed terminal, for one
                    self._say(f"stopping after this step...{'' if _interactive() else ' press again to stop now'}")

    def _end(self, number: int) -> None:
        """End the process and those that it started. All that is to last is on the disk already."""
        leave = threading.Thread(target=self._leave, daemon=True)
        leave.start()
        leave.join(1.0)
        for child in multiprocessing.active_children():
            child.kill()
        os._exit(128 + number)


def _interactive() -> bool:
    """Whether someone goes on working in this process after a stop, as in a notebook."""
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules


def _to_stderr(text: str) -> None:
    print(f"\n{text}", file=sys.stderr, flush=True)
