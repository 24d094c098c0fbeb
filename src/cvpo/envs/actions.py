"""Actions in an environment's own units: a JSON description that is saved with a policy, and its application."""

from __future__ import annotations

from typing import Any

import numpy as np

ActionSpec = dict[str, Any]  # made by `worker.spaces.action_spec`


def to_native(spec: ActionSpec, action: np.ndarray) -> np.ndarray:
    """Actions [N, a] in [-1, 1] (clipped), or choices [N] or [N, a] counted from 0, as the environment has them."""
    action = np.asarray(action)
    if "choices" not in spec:
        native = rescale(action, np.array(spec["low"]), np.array(spec["high"]))
    else:
        native = action + np.asarray(spec["start"])
        if isinstance(spec["choices"], int):
            return native
    return native.reshape(len(native), *spec["shape"]).astype(spec["dtype"])


def rescale(action: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Actions in [-1, 1], clipped to it, on [low, high]."""
    return low + (np.clip(action, -1.0, 1.0) + 1.0) * 0.5 * (high - low)
