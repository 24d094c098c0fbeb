"""Cores of their own for processes that know nothing of each other, by one lock file for each core of the machine."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cvpo.errors import UserError
from cvpo.machine import CAN_PIN


class CoreClaim:
    """`count` cores that no other claim has; all that there are if so many are not free.

    The system frees them when this process ends, however it ends.
    """

    def __init__(self, count: int) -> None:
        self._locks: list[int] = []
        self.cores: set[int] = set()
        if not CAN_PIN:
            return
        directory = _lock_directory()
        everything = os.sched_getaffinity(0)
        for core in sorted(everything):
            if len(self.cores) < count:
                lock = os.open(directory / str(core), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(lock)
                else:
                    self._locks.append(lock)
                    self.cores.add(core)
        if len(self.cores) < count:
            self.release()
            self.cores = everything

    @contextlib.contextmanager
    def inherited(self) -> Iterator[None]:
        """A process that is started in this context has the claimed cores from its first instruction on."""
        if not CAN_PIN:
            yield
            return
        own = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self.cores)  # of this thread alone, and of what it starts
        try:
            yield
        finally:
            os.sched_setaffinity(0, own)

    def release(self) -> None:
        for lock in self._locks:
            os.close(lock)
        self._locks = []


def _lock_directory() -> Path:
    """Where the locks of this user's processes are. Anybody may write beside it, so it must be ours, and no link."""
    path = Path(tempfile.gettempdir()) / f"cvpo-cores-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise UserError(f"{path} is not a directory of yours; remove it, or set TMPDIR to a directory of your own")
    path.chmod(0o700)
    return path
