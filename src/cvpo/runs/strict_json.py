"""Strict JSON. A number that JSON lacks is the string "NaN", "Infinity" or "-Infinity", and is read back as a float.

What is read may come from anybody: whatever is wrong with it is one error that names the file.
"""

from __future__ import annotations

import json
import math
import os
import reprlib
from collections.abc import Mapping
from typing import Any

from cvpo.errors import UserError

NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class BadFile(UserError, ValueError):
    """A file that does not hold what it should; the message names it, and what is wrong."""


def to_json(value: Any, indent: int | None = None) -> str:
    """Strict JSON, with the strings that stand for what it lacks."""
    return json.dumps(_plain(value), indent=indent, allow_nan=False)


def parse_json(text: str | bytes, where: object) -> Any:
    """What `to_json` was given; `where` is the file's name, for the error."""
    try:
        text = text if isinstance(text, str) else text.decode()
        value = json.loads(text)
        _check_depth(value)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # half a character can be escaped, and written nowhere
        # most texts have nothing to restore, and looking at each of their values takes longer than parsing them
        return restore(value) if any(word in text for word in NON_FINITE) else value
    except UnicodeDecodeError as error:
        raise BadFile(f"{where} is not text, at byte {error.start}") from None
    except UnicodeEncodeError:
        raise BadFile(f"{where} has half a character (a lone surrogate)") from None
    except ValueError as error:
        raise BadFile(f"{where} is not JSON ({error})") from None
    except RecursionError:
        raise BadFile(f"{where} is nested too deeply") from None


def _check_depth(value: Any, left: int = 50) -> None:
    """Nothing that this package writes is nested much, and whoever reads what is nested more runs out of stack."""
    if isinstance(value, (dict, list)):
        if not left:
            raise RecursionError
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, left - 1)


def require_fields(values: Any, fields: Mapping[str, type | tuple[type, ...]], where: object) -> dict[str, Any]:
    """`values` if it is a JSON object that has all `fields`, each of its type; otherwise an error that names the file.

    A bool is not taken for a number, an int is taken for a float.
    """
    if not isinstance(values, dict):
        raise BadFile(f"{where} holds {_short(values)}, where an object {{...}} is expected")
    for name, kinds in fields.items():
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        kinds = (*kinds, int) if float in kinds else kinds
        if name not in values:
            raise BadFile(f"{where} lacks {name!r}")
        value = values[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            expected = " or ".join(_JSON_NAMES[kind] for kind in kinds)
            raise BadFile(f"{name!r} in {where} must be {expected}, got {_short(value)}")
    return values


_JSON_NAMES: dict[type, str] = {
    str: "text", int: "a whole number", float: "a number", bool: "true or false", list: "a list", dict: "an object",
    type(None): "null",
}  # fmt: skip


def _short(value: Any) -> str:
    return f"{_JSON_NAMES.get(type(value), type(value).__name__)}, {reprlib.repr(value)}"


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
