"""How an observation becomes one flat vector: a JSON description that is saved with a policy, and its application."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

Layout = dict[str, Any]


def layout_of(space: gym.Space) -> Layout:
    """The layout of a space: Box, Discrete (one-hot), MultiBinary, and Dict and Tuple of these."""
    if isinstance(space, (gym.spaces.Box, gym.spaces.MultiBinary)):
        return {"box": [int(n) for n in space.shape]}
    if isinstance(space, gym.spaces.Discrete):
        return {"one_hot": int(space.n), "start": int(space.start)}
    if isinstance(space, gym.spaces.Dict):
        return {"dict": [[key, layout_of(part)] for key, part in space.spaces.items()]}
    if isinstance(space, gym.spaces.Tuple):
        return {"tuple": [layout_of(part) for part in space.spaces]}
    raise TypeError(
        f"observations in {space} are not supported; Box, Discrete, MultiBinary, Dict and Tuple are. "
        "Wrap the environment with gymnasium.wrappers.TransformObservation"
    )


def size_of(layout: Layout) -> int:
    if "box" in layout:
        return int(np.prod(layout["box"], dtype=int))
    if "one_hot" in layout:
        return int(layout["one_hot"])
    parts = [part for _, part in layout["dict"]] if "dict" in layout else layout["tuple"]
    return sum(size_of(part) for part in parts)


def flatten(layout: Layout, observation: Any, name: str = "observation") -> tuple[np.ndarray, bool]:
    """An observation, or a batch of them, as float32 [D] or [B, D], and whether it was a batch."""
    if "dict" in layout or "tuple" in layout:
        if "dict" in layout:
            if not isinstance(observation, dict) or set(observation) != {key for key, _ in layout["dict"]}:
                got = sorted(observation) if isinstance(observation, dict) else type(observation).__name__
                raise ValueError(f"{name} must be a dict with keys {[key for key, _ in layout['dict']]}, got {got}")
            parts = [flatten(part, observation[key], f"{name}[{key!r}]") for key, part in layout["dict"]]
        else:
            if not isinstance(observation, (tuple, list)) or len(observation) != len(layout["tuple"]):
                raise ValueError(f"{name} must be a tuple of {len(layout['tuple'])} parts, got {observation!r}")
            pairs = enumerate(zip(layout["tuple"], observation, strict=True))
            parts = [flatten(part, value, f"{name}[{i}]") for i, (part, value) in pairs]
        return np.concatenate([array for array, _ in parts], axis=-1), parts[0][1]

    array = np.asarray(observation)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers, got dtype {array.dtype}")
    if "one_hot" in layout:
        if array.ndim > 1:
            raise ValueError(f"{name} must be one integer or a batch of them, got shape {array.shape}")
        choice = array - layout["start"]
        if array.dtype.kind == "f" or (choice < 0).any() or (choice >= layout["one_hot"]).any():
            last = layout["start"] + layout["one_hot"] - 1
            raise ValueError(f"{name} must be an integer from {layout['start']} to {last}, got {observation!r}")
        return np.eye(layout["one_hot"], dtype=np.float32)[choice], array.ndim == 1
    shape = tuple(layout["box"])
    if array.shape == shape:
        return array.astype(np.float32).reshape(-1), False
    if array.shape[1:] == shape and array.ndim == len(shape) + 1:
        return array.astype(np.float32).reshape(len(array), -1), True
    raise ValueError(f"{name} must have shape {shape}, or (batch, *{shape}), got {array.shape}")
