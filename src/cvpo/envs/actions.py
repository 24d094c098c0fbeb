"""Actions in an environment's own units: a JSON description that is saved with a policy, and its application."""

from __future__ import annotations

from typing import Any

import numpy as np

ActionSpec = dict[str, Any]  # made by `worker.spaces.action_spec`


class NativeActions:
    """Actions as the environment has them, of actions [N, a] in [-1, 1] (clipped) or choices [N] counted from 0."""

    def __init__(self, spec: ActionSpec) -> None:
        self._shape, self._dtype = tuple(spec.get("shape", ())), spec.get("dtype", "int64")
        ends = [np.array(spec[end]) for end in ("low", "high") if end in spec]
        self._ends, self._start = ends, np.array(spec.get("start", 0))

    def __call__(self, action: np.ndarray) -> np.ndarray:
        native = rescale(action, *self._ends) if self._ends else np.asarray(action) + self._start
        return native.reshape(len(native), *self._shape).astype(self._dtype)


def rescale(action: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Actions in [-1, 1], clipped to it, on [low, high]."""
    return low + (np.clip(action, -1.0, 1.0) + 1.0) * 0.5 * (high - low)
