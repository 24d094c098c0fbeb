"""Actions in an environment's own units: a JSON description that is saved with a policy, and its application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cvpo.envs.errors import BadEnvironment

ActionSpec = dict[str, Any]  # made by `worker.spaces.action_spec`


class NativeActions:
    """Actions as the environment has them, of actions [N, a] in [-1, 1] (clipped) or choices [N] counted from 0.

    Several choices at once are one-hot, side by side.
    """

    def __init__(self, spec: ActionSpec) -> None:
        choices = spec.get("choices")
        self._splits = np.cumsum(choices)[:-1] if isinstance(choices, list) else None
        self._shape, self._dtype = tuple(spec.get("shape", ())), spec.get("dtype", "int64")
        ends = [np.array(spec[end]) for end in ("low", "high") if end in spec]
        self._ends, self._start = ends, np.array(spec.get("start", 0))

    def __call__(self, action: np.ndarray) -> np.ndarray:
        if self._splits is not None:
            action = np.stack([part.argmax(-1) for part in np.split(action, self._splits, axis=-1)], axis=-1)
        native = rescale(action, *self._ends) if self._ends else np.asarray(action) + self._start
        return native.reshape(len(native), *self._shape).astype(self._dtype)


def rescale(action: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Actions in [-1, 1], clipped to it, on [low, high]."""
    return np.minimum(low + (np.clip(action, -1.0, 1.0) + 1.0) * 0.5 * (high - low), high)  # rounding may go beyond


def from_native(spec: ActionSpec, action: np.ndarray) -> np.ndarray:
    """What `NativeActions` undoes: [T, a] in [-1, 1] of actions [T, ...], or choices [T] counted from 0.

    Several choices at once become one-hot, side by side.
    """
    flat = np.asarray(action).reshape(len(action), -1)
    size = np.size(spec["choices"]) if "choices" in spec else len(spec["low"])
    if flat.shape[1] != size:
        raise BadEnvironment(f"actions have {flat.shape[1]} numbers a step, the environment's have {size}")
    if "choices" in spec:
        choices = _counted_from_0(spec, flat)
        return _one_hot(choices, spec["choices"]) if isinstance(spec["choices"], list) else choices[:, 0]
    low, high = np.array(spec["low"], float), np.array(spec["high"], float)
    width = np.where(high > low, high - low, 1.0)
    return np.clip(2 * (flat - low) / width - 1, -1.0, 1.0).astype(np.float32)


def _counted_from_0(spec: ActionSpec, actions: np.ndarray) -> np.ndarray:
    """Choices [T, c] of actions [T, c]; refuses those that there are not."""
    start, counts = (np.atleast_1d(numbers) for numbers in (spec.get("start", 0), spec["choices"]))
    choices = actions - start
    bad = (choices < 0) | (choices >= counts) | (choices != np.floor(choices))
    if bad.any():
        step, part = np.argwhere(bad)[0]
        last = start[part] + counts[part] - 1
        raise BadEnvironment(f"choices are whole numbers from {start[part]} to {last}, got {actions[step, part]}")
    return choices.astype(np.int32)


def _one_hot(choices: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """[T, sum(counts)] of choices [T, c]."""
    parts = [np.arange(count) == choices[:, [i]] for i, count in enumerate(counts)]
    return np.concatenate(parts, axis=1).astype(np.float32)
