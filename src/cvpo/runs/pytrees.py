"""JAX's pytrees as arrays by name, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from cvpo.runs.array_file import ArrayFileError, Arrays, describe


def flatten(tree: Any) -> Arrays:
    """The leaves of a pytree by their paths, such as ".actor['w']"."""
    arrays = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = jax.tree_util.keystr(path)
        if jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key):
            raise TypeError(f"{name} is a PRNG key, which has no array format; keep jax.random.key_data of it instead")
        arrays[name] = np.asarray(leaf)
    return arrays


def unflatten(path: Path, arrays: Mapping[str, np.ndarray], template: Any) -> Any:
    """The arrays that `path` holds as a pytree like `template`."""
    leaves, treedef = jax.tree_util.tree_flatten_with_path(template)
    expected = {jax.tree_util.keystr(key_path): describe(leaf) for key_path, leaf in leaves}
    found = {name: describe(array) for name, array in arrays.items()}
    differing = [
        f"{name} is {found.get(name, 'absent')} there and {expected.get(name, 'absent')} here"
        for name in sorted(found.keys() | expected.keys())
        if found.get(name) != expected.get(name)
    ]
    if differing:
        more = f"; and {len(differing) - 4} more" if len(differing) > 4 else ""
        raise ArrayFileError(f"{path} does not fit this run: {'; '.join(differing[:4])}{more}")
    return jax.tree_util.tree_unflatten(treedef, [arrays[name] for name in expected])
