"""Errors that a user can fix, and suggestions for their messages. Anything else is a bug and keeps its traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """What a user can fix: the message names what was received and what to do. The command prints it as one line."""


class BadValue(UserError, ValueError):
    """A setting or an argument with a value that cannot be used."""


class NotFound(UserError, FileNotFoundError):
    """A file or a directory that a user named and that is not there."""


class Unavailable(UserError, RuntimeError):
    """What this machine lacks: an optional dependency, or a library of the system."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown name: the nearest ones, or all of them."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else f"; there are {', '.join(known)}"
