"""Strict JSON. A number that JSON lacks is the string "NaN", "Infinity" or "-Infinity", and is read back as a float."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_json(value: Any, indent: int | None = None) -> str:
    """Strict JSON, with the strings that stand for what it lacks."""
    return json.dumps(_plain(value), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    """`value` in JSON's own types; arrays and their scalars become lists and numbers."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or type(value) in (bool, int, float, str):
        return value
    if hasattr(value, "tolist"):  # NumPy's and JAX's
        return _plain(value.tolist())
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a run's files hold numbers, strings, lists and dicts, got {value!r} of {type(value)}")


def restore(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: restore(item) for key, item in value.items()}
    if isinstance(value, list):
        return [restore(item) for item in value]
    return NON_FINITE.get(value, value) if isinstance(value, str) else value
