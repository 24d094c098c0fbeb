"""What a user can fix, in the words that the training process passes on."""

from __future__ import annotations

import reprlib
from typing import Any


class Problem(Exception):
    """What is wrong with an environment and what to do about it."""


def short(value: Any) -> str:
    return f"{type(value).__name__} {reprlib.repr(value)}"
