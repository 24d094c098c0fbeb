"""Spaces of gym and gymnasium, of any age, as JSON; and the arrays in an observation."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

import numpy as np

from .problem import Problem, short


def observation_spec(space: Any) -> dict[str, Any]:
    """How observations of a space become one flat vector, in JSON's types."""
    kinds = class_names(space)
    if "Box" in kinds or "MultiBinary" in kinds:
        shape = [int(n) for n in space.shape]
        return {"image": shape} if len(shape) in (3, 4) and np.dtype(space.dtype) == np.uint8 else {"box": shape}
    if "Discrete" in kinds:
        return {"one_hot": int(space.n), "start": int(getattr(space, "start", 0))}
    if "Dict" in kinds:
        return {"dict": [[str(key), observation_spec(part)] for key, part in space.spaces.items()]}
    if "Tuple" in kinds:
        return {"tuple": [observation_spec(part) for part in space.spaces]}
    raise Problem(
        f"observations in {space} are not supported; Box, Discrete, MultiBinary, Dict and Tuple are. "
        "Wrap the environment with gymnasium.wrappers.TransformObservation"
    )


def action_spec(space: Any) -> dict[str, Any]:
    """What turns a policy's actions into those of a space, in JSON's types."""
    kinds = class_names(space)
    if "Discrete" in kinds:
        return {"choices": int(space.n), "start": int(getattr(space, "start", 0))}
    if "MultiDiscrete" in kinds:
        return _several(space, np.asarray(space.nvec), getattr(space, "start", 0))
    if "MultiBinary" in kinds:
        return _several(space, np.full(space.shape, 2), 0)
    if "Box" not in kinds:
        raise Problem(f"actions in {space} are not supported; Box, Discrete, MultiDiscrete and MultiBinary are")
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise Problem(
            f"actions have no bounds ({space}); wrap the environment with gymnasium.wrappers.RescaleAction or give its "
            "action space finite bounds"
        )
    if not np.prod(space.shape, dtype=int):
        raise Problem(f"actions hold no numbers ({space}); give the action space at least one component")
    low, high = (np.asarray(bound, np.float64).reshape(-1).tolist() for bound in (space.low, space.high))
    return {"low": low, "high": high, "shape": _sizes(space.shape), "dtype": np.dtype(space.dtype).name}


def _several(space: Any, counts: np.ndarray, start: Any) -> dict[str, Any]:
    start = np.broadcast_to(np.asarray(start), counts.shape)
    shape, dtype = _sizes(counts.shape), np.dtype(space.dtype).name
    return {"choices": _sizes(counts.reshape(-1)), "start": _sizes(start.reshape(-1)), "shape": shape, "dtype": dtype}


def _sizes(numbers: Sequence[Any] | np.ndarray) -> list[int]:
    return [int(n) for n in numbers]


def class_names(thing: Any) -> set[str]:
    """Classes are known by name, as gym and gymnasium have each their own."""
    return {kind.__name__ for kind in type(thing).__mro__}


def leaves(spec: dict[str, Any]) -> list[tuple[tuple[int, ...], str]]:
    """Shape and dtype of each array in an observation."""
    if "box" in spec:
        return [(tuple(spec["box"]), "float32")]
    if "image" in spec:
        return [(tuple(spec["image"]), "uint8")]
    if "one_hot" in spec:
        return [((), "int64")]
    parts = [part for _, part in spec["dict"]] if "dict" in spec else spec["tuple"]
    return [leaf for part in parts for leaf in leaves(part)]


def read_leaves(spec: dict[str, Any], observation: Any, name: str = "observation") -> Iterator[np.ndarray]:
    """The arrays in an observation, each of the shape that the space says."""
    if "dict" in spec:
        keys = [key for key, _ in spec["dict"]]
        got = sorted(map(str, observation)) if hasattr(observation, "keys") else type(observation).__name__
        if got != sorted(keys):
            raise Problem(f"{name} must be a dict with keys {keys}, got {got}")
        for key, part in spec["dict"]:
            yield from read_leaves(part, observation[key], f"{name}[{key!r}]")
    elif "tuple" in spec:
        if not isinstance(observation, (tuple, list)) or len(observation) != len(spec["tuple"]):
            raise Problem(f"{name} must be a tuple of {len(spec['tuple'])} parts, got {short(observation)}")
        for i, part in enumerate(spec["tuple"]):
            yield from read_leaves(part, observation[i], f"{name}[{i}]")
    else:
        yield _read_leaf(spec, observation, name)


def _read_leaf(spec: dict[str, Any], observation: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(observation)
    except ValueError:  # parts of unequal length
        raise Problem(f"{name} must be an array, got {short(observation)}") from None
    if array.dtype.kind not in "fiub":
        raise Problem(f"{name} must hold numbers, got {short(observation)}")
    shape = tuple(spec.get("box", spec.get("image", ())))
    if array.shape != shape:
        raise Problem(f"{name} must have shape {shape}, got {array.shape}")
    if "image" in spec and array.dtype != np.uint8:
        raise Problem(f"{name} must have dtype uint8 as its space says, got {array.dtype}")
    if "one_hot" in spec:
        last = spec["start"] + spec["one_hot"] - 1
        if array.dtype.kind == "f" or not spec["start"] <= int(array) <= last:
            raise Problem(f"{name} must be an integer from {spec['start']} to {last}, got {short(observation)}")
    return array
