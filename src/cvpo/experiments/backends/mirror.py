"""Carrying a run directory from disk to disk while it is being written, so that every copy can be resumed.

A checkpoint names replay segments that were written before it, and the metrics of its epoch are there before it too. So
checkpoints are read first and written last: whatever a copy has of them, it has all that they need.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from cvpo.runs.atomic import UNFINISHED, write_file
from cvpo.runs.directory import CHECKPOINTS, LOCK

Stamp = tuple[int, int]  # when a file was last written, and its size


class Changes(NamedTuple):
    """What makes a copy equal to its original."""

    files: dict[str, bytes]  # contents by path below the directory, in the order in which they may be written
    names: list[str]  # of all files there


def collect_changes(directory: Path, known: Mapping[str, Stamp]) -> tuple[Changes, dict[str, Stamp]]:
    """The files that are not as `known`, and the stamps of all files."""
    checkpoints = directory / CHECKPOINTS
    found = list(checkpoints.glob("*"))
    found += [path for path in directory.rglob("*") if path.parent != checkpoints]
    names = [str(path.relative_to(directory)) for path in found if path.is_file() and _travels(path)]
    files, stamps = {}, {}
    for name in names:
        try:
            stat = (directory / name).stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            if known.get(name) != stamp:
                files[name] = (directory / name).read_bytes()
        except FileNotFoundError:
            continue  # an old checkpoint, deleted meanwhile
        stamps[name] = stamp
    return Changes(dict(reversed(files.items())), list(stamps)), stamps


def apply_changes(directory: Path, changes: Changes) -> None:
    """Make the copy in `directory` equal to the original."""
    for name, content in changes.files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
    for path in directory.rglob("*"):
        if path.is_file() and _travels(path) and str(path.relative_to(directory)) not in changes.names:
            path.unlink()


def _travels(path: Path) -> bool:
    return path.name != LOCK and path.suffix != UNFINISHED
