"""Actions in an environment's own units: a JSON description that is saved with a policy, and its application."""

from __future__ import annotations

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
    """What `NativeActions` undoes: [T, a] in [-1, 1] of actions [T, ...], or choices [T] counted from 0."""
    flat = np.asarray(action).reshape(len(action), -1)
    size = 1 if "choices" in spec else len(spec["low"])
    if flat.shape[1] != size:
        raise BadEnvironment(f"actions have {flat.shape[1]} numbers a step, the environment's have {size}")
    if "choices" in spec:
        choice = flat[:, 0] - spec.get("start", 0)
        if (choice < 0).any() or (choice >= spec["choices"]).any():
            raise BadEnvironment(f"choices go from {spec.get('start', 0)} on, {spec['choices']} of them, got others")
        return choice.astype(np.int32)
    low, high = np.array(spec["low"], float), np.array(spec["high"], float)
    width = np.where(high > low, high - low, 1.0)
    return np.clip(2 * (flat - low) / width - 1, -1.0, 1.0).astype(np.float32)
