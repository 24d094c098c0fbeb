"""Arrays by name and some JSON as one file with a checksum over both. Nothing is ever unpickled, nothing imports JAX.

The same arrays and the same JSON give the same bytes. What is read has been checked: a file that was cut short or
altered is refused, and so is one that is larger than its reader can want.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from cvpo.errors import UserError
from cvpo.runs.atomic import why_not_written, write_file
from cvpo.runs.strict_json import BadFile, parse_json, require_fields, to_json

Arrays = dict[str, np.ndarray]

FORMAT = 2
SUFFIX = ".safetensors"
# One key for all that the header says: safetensors writes several in an order that changes from process to process.
_HEADER = "cvpo"


class ArrayFileError(UserError, RuntimeError):
    """A file of arrays that cannot be written, or is not what its reader needs."""


class DamagedFileError(ArrayFileError):
    """A file that is not what was written: missing, cut short or altered."""


class Content(NamedTuple):
    """What a file held."""

    arrays: Arrays
    info: dict[str, Any]
    checksum: str


class Limits(NamedTuple):
    """What a reader takes at most; more is refused before it is read."""

    arrays: int
    bytes: int


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], info: Mapping[str, Any]) -> None:
    """Arrays and some JSON as one file, which appears whole or not at all."""
    content, _ = encode(arrays, info)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
    except OSError as error:
        raise ArrayFileError(why_not_written(path, error)) from error


def encode(arrays: Mapping[str, np.ndarray], info: Mapping[str, Any]) -> tuple[bytes, str]:
    """A file's bytes and its checksum, which is in the file as well."""
    ready = {name: _storable(name, array) for name, array in arrays.items()}
    text = to_json({"format": FORMAT, **info})
    checksum = _checksum(ready, text)
    return to_safetensors(ready, {_HEADER: to_json({"sha256": checksum, "info": text})}), checksum


def read_arrays(path: Path, limits: Limits | None = None, *, finite: bool = False) -> tuple[Arrays, dict[str, Any]]:
    """A file's arrays and its JSON, after checking that they are as they were written.

    `limits` is for files that may be anybody's. `finite` refuses NaN and infinite numbers.
    """
    content = read(path, limits)
    if finite:
        require_finite(path, content.arrays)
    return content.arrays, content.info


def read(path: Path, limits: Limits | None = None) -> Content:
    """Like `read_arrays`, with the checksum, by which another file can refer to this one."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise DamagedFileError(f"{path} is not a regular file")
        if limits is not None and status.st_size > limits.bytes:
            raise ArrayFileError(f"{path} has {status.st_size:,} bytes; at most {limits.bytes:,} are read")
        with safe_open(path, framework="np") as file:
            header = (file.metadata() or {}).get(_HEADER)
            names = list(file.keys())
            if limits is not None and len(names) > limits.arrays:
                raise ArrayFileError(f"{path} has {len(names):,} arrays; at most {limits.arrays:,} are read")
            arrays = {name: np.asarray(file.get_tensor(name)) for name in names}
    except FileNotFoundError as error:
        raise DamagedFileError(f"{path} is missing") from error
    except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        raise DamagedFileError(f"{path} cannot be read ({error})") from error
    if header is None:
        raise DamagedFileError(f"{path} was not written by this version of cvpo")
    try:
        stated = require_fields(parse_json(header, path), {"sha256": str, "info": str}, path)
        if _checksum(arrays, stated["info"]) != stated["sha256"]:
            raise DamagedFileError(f"{path} does not match its checksum")
        info = require_fields(parse_json(stated["info"], path), {"format": int}, path)
    except BadFile as error:
        raise DamagedFileError(str(error)) from error
    if info["format"] != FORMAT:
        raise ArrayFileError(f"{path} has format {info['format']}; this version of cvpo reads format {FORMAT}")
    return Content(arrays, info, stated["sha256"])


def require_finite(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse arrays with NaN or infinite numbers, naming the first."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ArrayFileError(f"{path} is of no use: {name} has numbers that are NaN or infinite")


def describe(array: Any) -> str:
    """The type and the shape of an array, such as "float32[3, 4]"."""
    array = array if hasattr(array, "dtype") else np.asarray(array)
    return f"{array.dtype}{list(array.shape)}"


def _storable(name: str, array: np.ndarray) -> np.ndarray:
    array = np.asarray(array, order="C")  # safetensors copies memory as it lies
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {array.dtype}; a file of arrays holds booleans, integers and floats")
    return array


def _checksum(arrays: Arrays, text: str) -> str:
    """Of everything that a reader uses. Names, dtypes and shapes count: a flipped bit in them moves data around."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(f"\n{name} {describe(arrays[name])}\n".encode())
        digest.update(arrays[name].reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
