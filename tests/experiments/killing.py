"""Ending processes at a chosen moment."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

PATIENCE = 300  # seconds, for machines with much else to do


def wait_until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("what the test waits for did not happen")
        time.sleep(0.05)


def saved_epoch(directory: Path) -> int:
    """The newest checkpoint's epoch; -1 if there is none."""
    names = [path.stem for path in (directory / "checkpoints").glob("epoch-*.safetensors")]
    return max((int(name.removeprefix("epoch-")) for name in names), default=-1)


def workers_in(directory: Path) -> list[int]:
    """Ids of the processes that train in `directory`, or below it; not those of their guards, which they fork."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            arguments = (process / "cmdline").read_bytes().decode().split("\0")
            if "cvpo.experiments.backends.worker" in arguments and any(
                part.startswith(str(directory)) for part in arguments
            ):
                found[int(process.name)] = parent_of(int(process.name))
    return [process for process, parent in found.items() if parent not in found]


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def gone(process: int) -> bool:
    """Whether it has ended; one that nobody has waited for yet has too."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def started_by(process: int) -> set[int]:
    """The processes that it started, those that these started, and so on."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            parents[int(name)] = parent_of(int(name))
    found, newest = set(), {process}
    while newest:
        newest = {child for child, parent in parents.items() if parent in newest}
        found |= newest
    return found


@contextlib.contextmanager
def kill_when(condition, victims):
    """In the background, once `condition` holds, kill -9 the processes that `victims` names; gives those killed."""
    killed = []

    def act():
        wait_until(condition)
        for process in victims():
            os.kill(process, signal.SIGKILL)
            killed.append(process)

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    yield killed
    thread.join()
