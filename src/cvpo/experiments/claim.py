"""Which runs a sweep is training, so that no second one trains them too.

Each sweep keeps a list of its runs in OUTPUT/.sweeps, locked for as long as it lives. Sweeps of different runs share an
output directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from cvpo.errors import UserError
from cvpo.runs.atomic import why_not_written

_DIRECTORY = ".sweeps"
_SHOWN = 3


class RunsAreTaken(UserError, RuntimeError):
    """Another sweep is training some of the same runs."""


@contextlib.contextmanager
def claimed(output: Path, runs: Sequence[Path]) -> Iterator[None]:
    """Nobody else trains `runs`, paths below `output`, meanwhile; refused if somebody does."""
    directory = output / _DIRECTORY
    own = directory / f"{uuid.uuid4().hex}.json"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with _locked(directory / "lock", wait=True):  # of two that start together, the second sees the first
            _refuse_taken(directory, {str(run) for run in runs}, output)
            lock = _open(own)
            fcntl.flock(lock, fcntl.LOCK_EX)
            who = f"process {os.getpid()} of {platform.node()}"
            own.write_text(json.dumps({"who": who, "runs": [str(run) for run in runs]}))
    except OSError as error:
        raise UserError(why_not_written(directory, error)) from error
    try:
        yield
    finally:
        own.unlink(missing_ok=True)
        os.close(lock)


def _refuse_taken(directory: Path, runs: set[str], output: Path) -> None:
    for path in directory.glob("*.json"):
        with contextlib.suppress(BlockingIOError), _locked(path, wait=False):
            path.unlink(missing_ok=True)  # nobody holds it: that sweep was killed
            continue
        try:
            other = json.loads(path.read_text())
        except FileNotFoundError:  # that sweep has ended meanwhile
            continue
        common = sorted(runs & set(other["runs"]))
        if common:
            more = f" and {len(common) - _SHOWN} more" if len(common) > _SHOWN else ""
            raise RunsAreTaken(
                f"another sweep ({other['who']}) is training {', '.join(common[:_SHOWN])}{more} in {output}; wait for "
                "it, stop it, or choose another output"
            )


@contextlib.contextmanager
def _locked(path: Path, wait: bool) -> Iterator[None]:
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
