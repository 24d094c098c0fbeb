"""What tells one environment from another, so that runs of two are never taken for seeds of one."""

from __future__ import annotations

import functools
import hashlib
import types
from typing import Any

from cvpo.envs.sources import EnvSource, Remote


def identity(source: EnvSource, description: dict[str, Any]) -> dict[str, Any]:
    """What made the environment, with which arguments, and its spaces, in JSON's types."""
    made = {"made_by": source, "arguments": {}} if isinstance(source, str) else _maker(source)
    return made | {key: description[key] for key in ("observation", "action")}


def _maker(source: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    if isinstance(source, Remote):
        return {"made_by": source.env, "arguments": dict(source.kwargs)}
    while isinstance(source, functools.partial):
        arguments = {str(i): _plain(value) for i, value in enumerate(source.args)} | arguments
        arguments = {name: _plain(value) for name, value in source.keywords.items()} | arguments
        source = source.func
    if not isinstance(source, type | types.FunctionType | types.MethodType):
        source = type(source)  # an instance, such as a vector environment
    made = {"made_by": f"{source.__module__}.{source.__qualname__}", "arguments": arguments}
    if isinstance(source, types.FunctionType):
        made["code"] = _digest(source)
    return made


def _digest(function: types.FunctionType) -> str:
    """What a function says, wherever it stands: every lambda of a module has the same name."""
    code = function.__code__
    cells = function.__closure__ or ()
    parts = [
        code.co_names,
        [_plain(constant) for constant in code.co_consts],
        [_plain(cell.cell_contents) for cell in cells],
        [_plain(value) for value in function.__defaults__ or ()],
    ]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """A value in JSON's types; of what has no such form its type alone, as its text may differ from run to run."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    kind = value if isinstance(value, type | types.FunctionType) else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"
