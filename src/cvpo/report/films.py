"""The films and pictures of a run: of its policy, and of its worst episodes."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from cvpo.runs.directory import INSPECT, VIDEOS

FILM_BYTES = 4_000_000
"""A larger film is linked, not embedded, so that the page opens at once."""
ALL_FILMS_BYTES = 40_000_000
"""So are those beyond this sum."""
_TYPES = {".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif", ".png": "image/png"}


class Film(NamedTuple):
    path: Path
    name: str
    media_type: str


def films_of(run: Path) -> list[Film]:
    return [film for folder in (VIDEOS, INSPECT) for film in _in_folder(run / folder)]


def _in_folder(directory: Path) -> list[Film]:
    if directory.is_symlink():
        return []
    # Regular files alone: a link may point to a file that is nobody's business.
    return sorted(
        Film(path, writable(path.stem.replace("_", " ")), _TYPES[path.suffix])
        for path in directory.glob("*")
        if path.suffix in _TYPES and stat.S_ISREG(path.lstat().st_mode) and os.access(path, os.R_OK)
    )


class Embedding:
    """Where a page finds its films: in itself, as far as there is room, or beside it."""

    def __init__(self, output: Path):
        """output: the directory that the page will be in; links start there."""
        self._output = output
        self._room = ALL_FILMS_BYTES

    def source(self, film: Film) -> str:
        size = film.path.stat().st_size
        if size > min(FILM_BYTES, self._room):
            return quote(os.fsencode(Path(os.path.relpath(film.path, self._output.resolve())).as_posix()))
        self._room -= size
        return f"data:{film.media_type};base64,{base64.b64encode(film.path.read_bytes()).decode()}"


def writable(text: str) -> str:
    """The name of a file may hold bytes that are no text."""
    return text.encode(errors="backslashreplace").decode()
