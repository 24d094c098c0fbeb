"""Files that appear whole or not at all, and stay: the one way in which this package replaces a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

UNFINISHED = ".unfinished"


def write_files(files: Mapping[Path, bytes]) -> None:
    """Let files appear whole or not at all, in order, and durably; needs space for all before the first appears."""
    try:
        for path, content in files.items():
            with open(_unfinished(path), "wb") as file:
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


def write_text(path: Path, text: str) -> None:
    """Give a file its new content in one instant."""
    write_files({path: text.encode()})


def _unfinished(path: Path) -> Path:
    return path.with_name(path.name + UNFINISHED)


def fsync_directory(path: Path) -> None:
    """A rename is durable only once its directory is."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
