"""How an observation becomes one flat vector: a JSON description that is saved with a policy, and its application."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from cvpo.envs.worker.spaces import leaves

ObservationSpec = dict[str, Any]  # made by `worker.spaces.observation_spec`


def shape_of(spec: ObservationSpec) -> tuple[int, ...]:
    """Of an array or an image."""
    return tuple(spec["box"] if "box" in spec else spec["image"])


def images_of(spec: ObservationSpec) -> tuple[tuple[int, ...], ...]:
    """Shapes of the images in an observation, in their order."""
    return tuple(shape for shape, dtype in leaves(spec) if dtype == "uint8")


def size_of(spec: ObservationSpec) -> int:
    """The length of the flat vector: of numbers, or of bytes if there is an image."""
    images = images_of(spec)
    if images:
        return sum(map(math.prod, images)) + 4 * _count_numbers(spec)
    return _count_numbers(spec)


def _count_numbers(spec: ObservationSpec) -> int:
    """Of what is no image."""
    if "box" in spec:
        return math.prod(spec["box"])
    if "image" in spec:
        return 0
    if "one_hot" in spec:
        return int(spec["one_hot"])
    parts = [part for _, part in spec["dict"]] if "dict" in spec else spec["tuple"]
    return sum(_count_numbers(part) for part in parts)


def flatten(spec: ObservationSpec, observation: Any) -> tuple[np.ndarray, bool]:
    """An observation, or a batch of them, as one flat vector [D] or [B, D], and whether it was a batch.

    It is float32. With images it is bytes: all images, then all numbers as float32, of four bytes each.
    """
    parts = list(_parts(spec, observation, "observation"))
    batched = parts[0][1]
    if len(parts) == 1:
        return parts[0]
    images = [array for array, _ in parts if array.dtype == np.uint8]
    numbers = [array for array, _ in parts if array.dtype != np.uint8]
    if not images:
        return np.concatenate(numbers, axis=-1), batched
    if numbers:
        images.append(np.ascontiguousarray(np.concatenate(numbers, axis=-1), np.float32).view(np.uint8))
    return np.concatenate(images, axis=-1), batched


def numbers_in(spec: ObservationSpec, flat: np.ndarray) -> np.ndarray:
    """What is no image in flat observations [..., D]."""
    if flat.dtype != np.uint8:
        return flat
    start = sum(map(math.prod, images_of(spec)))
    return np.ascontiguousarray(flat[..., start:]).view(np.float32)


def _parts(spec: ObservationSpec, observation: Any, name: str) -> Iterator[tuple[np.ndarray, bool]]:
    """Each array in an observation as [d] or [B, d], and whether it is a batch."""
    if "dict" in spec:
        if not isinstance(observation, dict) or set(observation) != {key for key, _ in spec["dict"]}:
            got = sorted(observation) if isinstance(observation, dict) else type(observation).__name__
            raise ValueError(f"{name} must be a dict with keys {[key for key, _ in spec['dict']]}, got {got}")
        for key, part in spec["dict"]:
            yield from _parts(part, observation[key], f"{name}[{key!r}]")
    elif "tuple" in spec:
        if not isinstance(observation, (tuple, list)) or len(observation) != len(spec["tuple"]):
            raise ValueError(f"{name} must be a tuple of {len(spec['tuple'])} parts, got {observation!r}")
        for i, part in enumerate(spec["tuple"]):
            yield from _parts(part, observation[i], f"{name}[{i}]")
    else:
        yield _part(spec, observation, name)


def _part(spec: ObservationSpec, observation: Any, name: str) -> tuple[np.ndarray, bool]:
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
    if "image" in spec and array.dtype != np.uint8:
        raise ValueError(f"{name} is an image: it must have dtype uint8, got {array.dtype}")
    array = array.astype(np.uint8 if "image" in spec else np.float32)  # a copy: the array may be written to again
    if array.shape == shape:
        return array.reshape(-1), False
    if array.shape[1:] == shape and array.ndim == len(shape) + 1:
        return array.reshape(len(array), -1), True
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
