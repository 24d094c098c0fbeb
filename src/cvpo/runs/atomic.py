"""Files that appear whole or not at all, and stay: the one way in which this package replaces a file."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

UNFINISHED = ".unfinished"
_REMEDIES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EMFILE: "raise the number of open files (ulimit -n)",
    errno.ENFILE: "raise the number of open files (ulimit -n)",
    errno.ENOENT: "its directory was removed or moved",
    errno.EEXIST: "a file of that name is there; choose another name",
    errno.ENOTDIR: "a part of its path is a file; choose another path",
    errno.ELOOP: "it is a link; remove it",
    errno.EACCES: "make it writable",
    errno.EPERM: "make it writable",
    errno.EROFS: "make it writable",
}


def write_files(files: Mapping[Path, bytes]) -> None:
    """Let files appear whole or not at all, in order, and durably; needs space for all before the first appears."""
    try:
        for path, content in files.items():
            with open(_unfinished(path), "wb", opener=no_link) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for path in files:
            os.replace(_unfinished(path), path)
            fsync_directory(path.parent)
    except OSError:
        for path in files:
            _unfinished(path).unlink(missing_ok=True)  # the disk may be full: leave nothing useless on it
        raise


def write_file(path: Path, content: bytes) -> None:
    """Give a file its new content in one instant."""
    write_files({path: content})


def write_text(path: Path, text: str) -> None:
    """Give a file its new content in one instant."""
    write_files({path: text.encode()})


def why_not_written(path: Path, error: OSError) -> str:
    """The start of an error message: what could not be written, why, and the remedy where there is a usual one."""
    remedy = _REMEDIES.get(error.errno or 0)
    reason = error.strerror or str(error)
    return f"could not write {path}: {reason}; {remedy}" if remedy else f"could not write {path}: {reason}"


def no_link(path: str, flags: int) -> int:
    """An opener for `open`: what is written into a run directory lands there, and not where a link in it points to."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _unfinished(path: Path) -> Path:
    return path.with_name(path.name + UNFINISHED)


def fsync_directory(path: Path) -> None:
    """A rename is durable only once its directory is."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
