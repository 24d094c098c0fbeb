"""Data that a run starts with: demonstrations from a file, or the replay of an earlier run. docs/deployment.md.

A file of demonstrations is an npz of T steps in the order in which they were taken, episode after episode:

    observation [T, D]        flat, as `cvpo.load(run).description` says, or as the space has it if that is a Box
    action [T, ...]           in the environment's own units
    reward [T], cost [T] or [T, m]
    next_observation [T, D]   what followed in the same episode
    terminated [T], ended [T] the next state has no future; the last step of its episode, for whatever reason
    log_prob [T]              of the action under the policy that took it, if that is known
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import jax
import numpy as np

from cvpo.algorithms.base import Spec, Transition
from cvpo.envs.actions import from_native
from cvpo.envs.adapter import Environments
from cvpo.envs.errors import BadEnvironment
from cvpo.envs.spaces import numbers_in
from cvpo.errors import BadValue, NotFound
from cvpo.runs.array_file import read_arrays, write_arrays

FILE = "start.safetensors"  # in the checkpoints of a run: what a resumed one fills its replay with again
# Of an action whose density is unknown: so low that Retrace never cuts a trace there.
UNKNOWN_LOG_PROB = -100.0
_NAMES = ("observation", "action", "reward", "cost", "next_observation", "terminated", "ended")


def read_demonstrations(path: str | Path, environments: Environments, spec: Spec) -> Transition:
    """The steps [T, ...] of a file, as the learner has them; refuses those of another environment."""
    path = Path(path)
    if not path.is_file():
        raise NotFound(f"there are no demonstrations at {path}")
    data = _read_arrays(path)
    count = len(data["reward"])
    flat = {name: values.reshape(count, -1) for name, values in data.items() if name != "action"}
    sizes = {"observation": spec.obs_size, "next_observation": spec.obs_size, "cost": spec.num_costs}
    for name, values in flat.items():
        size = sizes.get(name, 1)
        if values.shape[1] != size:
            raise BadValue(f"{path}: {name} has {values.shape[1]} numbers a step, {environments.name} {size}")
    observations = flat["observation"], flat["next_observation"]
    if spec.images and not all(values.dtype == np.uint8 for values in observations):
        raise BadValue(f"{path}: observations with images are uint8, got {observations[0].dtype}")
    if not all(np.isfinite(numbers_in(environments.observation, values)).all() for values in observations):
        raise BadValue(f"{path}: an observation has numbers that are NaN or infinite")
    seen = np.uint8 if spec.images else np.float32
    log_prob = flat.get("log_prob", np.full((count, 1), UNKNOWN_LOG_PROB))
    terminated, ended = (flat[name][:, 0].astype(bool) for name in ("terminated", "ended"))
    fields: Any = dict(
        obs=flat["observation"].astype(seen),
        action=_actions(path, environments, data["action"]),
        log_prob=log_prob[:, 0].astype(np.float32),
        reward=flat["reward"][:, 0].astype(np.float32),
        costs=flat["cost"].astype(np.float32),
        next_obs=flat["next_observation"].astype(seen),
        terminated=terminated,
        ended=ended | terminated,
    )
    return Transition(**fields)


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    """What demonstrations need of an npz file, each array with a row for every step; others in it are left alone."""
    try:
        if not zipfile.is_zipfile(path):  # NumPy would take a single array too
            raise ValueError("not a zip archive, or one cut short")
        with np.load(path, allow_pickle=False) as file:
            data = {name: np.asarray(file[name]) for name in (*_NAMES, "log_prob") if name in file}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise BadValue(f"{path} is not an npz file of numbers ({error})") from error
    missing = [name for name in _NAMES if name not in data]
    if missing:
        raise BadValue(f"{path} has no {', '.join(missing)}; demonstrations need {', '.join(_NAMES)}")
    for name, values in data.items():
        if values.ndim == 0 or values.dtype.kind not in "fiub":
            raise BadValue(f"{path}: {name} needs numbers for each step, got {values.dtype} of shape {values.shape}")
        if not np.isfinite(values).all():
            raise BadValue(f"{path}: {name} has numbers that are NaN or infinite")
    count = len(data["reward"])
    if not count:
        raise BadValue(f"{path} holds no steps")
    for name, values in data.items():
        if len(values) != count:
            raise BadValue(f"{path}: {name} has {len(values)} steps and reward {count}")
    return data


def _actions(path: Path, environments: Environments, actions: np.ndarray) -> np.ndarray:
    try:
        return from_native(environments.action, actions)
    except BadEnvironment as error:
        raise BadValue(f"{path}: {error}") from None


def pack(steps: Transition, spec: Spec, envs: int, capacity: int) -> Transition:
    """Steps [T, ...] as epochs [P, H, N, ...] of the replay, at most `capacity` of them: the newest.

    What is missing in the last epoch is filled up with steps from the beginning.
    """
    count, size = len(steps.reward), spec.episode_length * envs
    epochs = -(-count // size)
    index = np.resize(np.arange(count), epochs * size)
    ended = steps.ended[index].copy()
    ended[count - 1 :: count] = True  # what follows the last step is not its future
    steps = jax.tree.map(lambda x: x[index], steps)._replace(ended=ended)
    # a column of an epoch is a stretch of H steps in their order
    packed = jax.tree.map(
        lambda x: np.moveaxis(x.reshape(epochs, envs, spec.episode_length, *x.shape[1:]), 1, 2), steps
    )
    return jax.tree.map(lambda x: x[-capacity:], packed)


def keep(checkpoints: Path, data: Transition) -> None:
    """Write the data beside a run's checkpoints, so that it goes on the same whatever becomes of the file."""
    write_arrays(checkpoints / FILE, {name: np.ascontiguousarray(x) for name, x in data._asdict().items()}, {})


def kept(checkpoints: Path) -> Transition | None:
    """What `keep` wrote, if it did."""
    if not (checkpoints / FILE).exists():
        return None
    arrays, _ = read_arrays(checkpoints / FILE)
    fields: Any = {name: arrays[name] for name in Transition._fields}
    return Transition(**fields)
