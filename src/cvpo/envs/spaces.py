"""How an observation becomes one flat vector: a JSON description that is saved with a policy, and its application."""

from __future__ import annotations

from typing import Any

import numpy as np

ObservationSpec = dict[str, Any]  # made by `worker.spaces.observation_spec`


def shape_of(spec: ObservationSpec) -> tuple[int, ...]:
    """Of an array or a picture."""
    return tuple(spec["box"] if "box" in spec else spec["image"])


def size_of(spec: ObservationSpec) -> int:
    """The length of the flat vector."""
    if "box" in spec or "image" in spec:
        return int(np.prod(shape_of(spec), dtype=int))
    if "one_hot" in spec:
        return int(spec["one_hot"])
    parts = [part for _, part in spec["dict"]] if "dict" in spec else spec["tuple"]
    return sum(size_of(part) for part in parts)


def flatten(spec: ObservationSpec, observation: Any, name: str = "observation") -> tuple[np.ndarray, bool]:
    """An observation, or a batch of them, as float32 [D] or [B, D], and whether it was a batch."""
    if "dict" in spec or "tuple" in spec:
        if "dict" in spec:
            if not isinstance(observation, dict) or set(observation) != {key for key, _ in spec["dict"]}:
                got = sorted(observation) if isinstance(observation, dict) else type(observation).__name__
                raise ValueError(f"{name} must be a dict with keys {[key for key, _ in spec['dict']]}, got {got}")
            parts = [flatten(part, observation[key], f"{name}[{key!r}]") for key, part in spec["dict"]]
        else:
            if not isinstance(observation, (tuple, list)) or len(observation) != len(spec["tuple"]):
                raise ValueError(f"{name} must be a tuple of {len(spec['tuple'])} parts, got {observation!r}")
            pairs = enumerate(zip(spec["tuple"], observation, strict=True))
            parts = [flatten(part, value, f"{name}[{i}]") for i, (part, value) in pairs]
        return np.concatenate([array for array, _ in parts], axis=-1), parts[0][1]

    array = np.asarray(observation)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers, got dtype {array.dtype}")
    if "one_hot" in spec:
        if array.ndim > 1:
            raise ValueError(f"{name} must be one integer or a batch of them, got shape {array.shape}")
        choice = array - spec["start"]
        if array.dtype.kind == "f" or (choice < 0).any() or (choice >= spec["one_hot"]).any():
            last = spec["start"] + spec["one_hot"] - 1
            raise ValueError(f"{name} must be an integer from {spec['start']} to {last}, got {observation!r}")
        return np.eye(spec["one_hot"], dtype=np.float32)[choice], array.ndim == 1
    shape = shape_of(spec)
    if array.shape == shape:
        return array.astype(np.float32).reshape(-1), False
    if array.shape[1:] == shape and array.ndim == len(shape) + 1:
        return array.astype(np.float32).reshape(len(array), -1), True
    raise ValueError(f"{name} must have shape {shape}, or (batch, *{shape}), got {array.shape}")


def assemble(spec: ObservationSpec, arrays: list[np.ndarray]) -> Any:
    """The observation, or a batch of them, that holds these arrays in the order of its leaves."""
    remaining = iter(arrays)

    def build(part: ObservationSpec) -> Any:
        if "dict" in part:
            return {key: build(inner) for key, inner in part["dict"]}
        if "tuple" in part:
            return tuple(build(inner) for inner in part["tuple"])
        return next(remaining)

    return build(spec)
