"""Numbers as users write them: on the command line, in a file of settings, or in Python."""

from __future__ import annotations

import math
import numbers
import re
import reprlib
from fractions import Fraction
from typing import Any

from cvpo.errors import BadValue

LARGEST = 2**63 - 1  # that arrays and generators of random numbers take
_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6}
_NUMBER = re.compile(r"([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:e[+-]?\d{1,2})?)([km]?)", re.IGNORECASE)


def whole_number(name: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """`value` as a Python int: an int, one of NumPy's, or a float without a fraction, such as 1e6.

    Anything else, text and booleans among it, is refused with a message that names the setting.
    """
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    is_integer = is_number and isinstance(value, numbers.Integral)
    if not is_integer and not (is_number and math.isfinite(value) and value == int(value)):
        raise BadValue(f"{name} must be a whole number, got {value!r}")
    if least is not None and value < least:
        raise BadValue(f"{name} must be >= {least}, got {reprlib.repr(int(value))}")
    if most is not None and value > most:
        raise BadValue(f"{name} must be <= {most}, got {reprlib.repr(int(value))}")
    return int(value)


def parse_whole_number(text: str) -> int:
    """The whole number that a text stands for: 200000, 200_000, 2e5 or 200k (k for thousands, M for millions)."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise BadValue(f"{text!r} is not a whole number; 200000, 2e5 and 200k are")
    digits, suffix = match.groups()
    number = Fraction(digits.replace("_", "")) * _SUFFIXES[suffix.lower()]
    if number.denominator != 1:
        raise BadValue(f"{text} is not a whole number")
    return int(number)
