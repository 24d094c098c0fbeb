"""Arrays by name and some JSON as one file with a checksum over both. Nothing is ever unpickled.

Reading and writing them needs no JAX; only `flatten` and `unflatten`, which turn pytrees into such arrays, load it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from cvpo.errors import UserError
from cvpo.runs.atomic import write_files

Arrays = dict[str, np.ndarray]

FORMAT = 1
SUFFIX = ".safetensors"


class CheckpointError(UserError, RuntimeError):
    """A checkpoint could not be written, none could be read, or the one found is of another run."""


class DamagedFileError(Exception):
    """A file that is not what was written: missing, cut short or altered."""


def write_arrays(path: Path, arrays: Arrays, info: Mapping[str, Any]) -> None:
    """One file, which appears whole or not at all."""
    content, _ = encode(arrays, {"format": FORMAT, **info})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_files({path: content})
    except OSError as error:
        raise CheckpointError(f"could not write {path}: {error.strerror}; free some space") from error


def read_arrays(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """What `write_arrays` wrote, after checking it."""
    try:
        arrays, info, _ = read(path)
    except DamagedFileError as damage:
        raise CheckpointError(str(damage)) from damage
    return arrays, info


def flatten(tree: Any) -> Arrays:
    """The leaves of a pytree by their paths, such as ".actor['w']"."""
    import jax

    arrays = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = jax.tree_util.keystr(path)
        if jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key):
            raise TypeError(f"{name} is a PRNG key, which has no array format; keep jax.random.key_data of it instead")
        array = np.asarray(leaf, order="C")  # safetensors copies memory as it lies
        if array.dtype.kind not in "biuf":
            raise TypeError(f"{name} has dtype {array.dtype}; a checkpoint holds booleans, integers and floats")
        arrays[name] = array
    return arrays


def unflatten(path: Path, arrays: Arrays, template: Any) -> Any:
    """The stored arrays as a pytree like `template`."""
    import jax

    leaves, treedef = jax.tree_util.tree_flatten_with_path(template)
    expected = {jax.tree_util.keystr(key_path): _describe(leaf) for key_path, leaf in leaves}
    found = {name: _describe(array) for name, array in arrays.items()}
    differing = [
        f"{name} is {found.get(name, 'absent')} there and {expected.get(name, 'absent')} here"
        for name in sorted(found.keys() | expected.keys())
        if found.get(name) != expected.get(name)
    ]
    if differing:
        more = f"; and {len(differing) - 4} more" if len(differing) > 4 else ""
        raise CheckpointError(f"{path} does not fit this run: {'; '.join(differing[:4])}{more}")
    return jax.tree_util.tree_unflatten(treedef, [arrays[name] for name in expected])


def _describe(leaf: Any) -> str:
    leaf = leaf if hasattr(leaf, "dtype") else np.asarray(leaf)
    return f"{leaf.dtype}{list(leaf.shape)}"


def encode(arrays: Arrays, info: Mapping[str, Any]) -> tuple[bytes, str]:
    """A file's bytes and its checksum, which is in the file as well."""
    text = json.dumps(info)
    checksum = _checksum(arrays, text)
    return to_safetensors(arrays, {"info": text, "sha256": checksum}), checksum


def _checksum(arrays: Arrays, text: str) -> str:
    """Of everything that a reader uses. Names, dtypes and shapes count: a flipped bit in them moves data around."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(f"\n{name} {_describe(arrays[name])}\n".encode())
        digest.update(arrays[name].reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def read(path: Path) -> tuple[Arrays, dict[str, Any], str]:
    """A file's arrays, information and checksum, after checking that they are as they were written."""
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            arrays = {name: np.asarray(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except FileNotFoundError as error:
        raise DamagedFileError(f"{path} is missing") from error
    except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        raise DamagedFileError(f"{path} cannot be read ({error})") from error
    text, checksum = metadata.get("info", ""), metadata.get("sha256", "")
    if _checksum(arrays, text) != checksum:
        raise DamagedFileError(f"{path} does not match its checksum")
    info = json.loads(text)
    if info["format"] != FORMAT:
        raise CheckpointError(f"{path} has format {info['format']}; this version of cvpo reads format {FORMAT}")
    return arrays, info, checksum
