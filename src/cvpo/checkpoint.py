"""A run's state on disk, so that a killed run goes on as if it had never stopped.

An epoch's end is the whole state: the learner, a few counters and the replay. The replay's old epochs never change, so
each is written once, as a segment of its own, and a checkpoint names the segments it needs by their checksums:

    checkpoints/epoch-000012.safetensors          the learner's arrays; counters and the list of segments in the header
    checkpoints/replay/epoch-000012.safetensors   what epoch 12 added to the replay

Every file appears under its name only when complete and flushed to the disk, and nothing is deleted before the
checkpoint that makes it unnecessary is durable: whatever the instant of a crash, the checkpoint before it is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

Arrays = dict[str, np.ndarray]

_FORMAT = 1
_SUFFIX = ".safetensors"
_UNFINISHED = ".unfinished"


class CheckpointError(RuntimeError):
    """A checkpoint could not be written, none could be read, or the one found is of another run."""


class DamagedFileError(Exception):
    """A file that is not what was written: missing, cut short or altered."""


@dataclass(frozen=True)
class Checkpoint:
    """What `CheckpointStore.load` found; all arrays are NumPy's."""

    epoch: int
    learner: Any
    counters: dict[str, Any]
    _segment_files: dict[int, tuple[Path, str]]
    _segment_template: Any

    def segments(self) -> Iterator[tuple[int, Any]]:
        """(epoch, segment) from the oldest to the newest, read one at a time: together they may fill the memory."""
        for epoch, (path, checksum) in self._segment_files.items():
            yield epoch, _unflatten(path, _read_segment(path, checksum), self._segment_template)


class CheckpointStore:
    """The checkpoints of one run; saving goes on from whatever was loaded.

    `identity` says whose checkpoints these are (algorithm, observation size, ...), in JSON types: loading refuses those
    of another. The newest `keep` checkpoints stay. `replay_epochs` is how many epochs the replay holds, 0 without one.
    """

    def __init__(self, directory: str | Path, identity: Mapping[str, Any], *, keep: int = 3, replay_epochs: int = 0):
        if keep < 1:
            raise ValueError(f"keep must be >= 1, got {keep}")
        self.directory = Path(directory)
        self._identity = json.loads(json.dumps(identity))
        self._keep = keep
        self._replay_epochs = replay_epochs
        self._segments: dict[int, str] = {}  # epoch -> checksum, of the segments that the current state consists of

    def save(self, epoch: int, learner: Any, counters: Mapping[str, Any], segment: Any = None) -> Path:
        """Write the state at the end of `epoch`; `segment` is what this epoch added to the replay, if there is one.

        `learner` and `segment` are pytrees of arrays, `counters` fits JSON. Checkpoints of later epochs are deleted:
        they are of a course that the run has left.
        """
        if (segment is not None) != (self._replay_epochs > 0):
            given = "no segment" if segment is None else "a segment"
            raise ValueError(f"a replay of {self._replay_epochs} epochs cannot be saved with {given}")
        path = self._path(epoch)
        segment_path = self._segment_path(epoch)
        files: dict[Path, bytes] = {}  # in the order of appearance: a checkpoint after the segment it needs
        segments = dict(self._segments)
        if segment is not None:
            files[segment_path], segments[epoch] = _encode(_flatten(segment), {"format": _FORMAT})
            segments = {e: checksum for e, checksum in segments.items() if epoch - self._replay_epochs < e <= epoch}
        info = {
            "format": _FORMAT,
            "epoch": epoch,
            "identity": self._identity,
            "counters": dict(counters),
            "segments": segments,
        }
        files[path], _ = _encode(_flatten(learner), info)
        try:
            segment_path.parent.mkdir(parents=True, exist_ok=True)
            self._remove_unfinished()
            _write(files)
        except OSError as error:
            raise CheckpointError(f"could not write {path}: {error.strerror}; {self._survivor(epoch)}") from error
        self._segments = segments
        self._prune(epoch)
        return path

    def load(self, learner: Any, segment: Any = None) -> Checkpoint | None:
        """The newest checkpoint that is whole, or None if there is no checkpoint at all.

        `learner` and `segment` give structure, shapes and dtypes (arrays or `jax.ShapeDtypeStruct`), and what is
        loaded must match them. Damaged checkpoints are passed over with a warning.
        """
        epochs = self._epochs(self.directory)
        for epoch in reversed(epochs):
            path = self._path(epoch)
            try:
                arrays, info, _ = _read(path)
                self._check_identity(path, info["identity"])
                segments = {int(e): checksum for e, checksum in info["segments"].items()}
                files = {e: (self._segment_path(e), checksum) for e, checksum in segments.items()}
                for segment_path, checksum in files.values():
                    _read_segment(segment_path, checksum)
            except DamagedFileError as damage:
                warnings.warn(f"the checkpoint of epoch {epoch} is passed over: {damage}", stacklevel=2)
                continue
            self._segments = segments
            return Checkpoint(epoch, _unflatten(path, arrays, learner), info["counters"], files, segment)
        if epochs:
            raise CheckpointError(
                f"none of the {len(epochs)} checkpoints in {self.directory} is whole (the warnings say what is wrong "
                "with each); restore the directory from a copy, or start the run again in another one"
            )
        return None

    def _path(self, epoch: int) -> Path:
        return self.directory / f"epoch-{epoch:06d}{_SUFFIX}"

    def _segment_path(self, epoch: int) -> Path:
        return self.directory / "replay" / f"epoch-{epoch:06d}{_SUFFIX}"

    def _epochs(self, directory: Path) -> list[int]:
        matches = (re.fullmatch(rf"epoch-(\d+){_SUFFIX}", path.name) for path in directory.glob("epoch-*"))
        return sorted(int(match[1]) for match in matches if match)

    def _prune(self, epoch: int) -> None:
        kept = [e for e in self._epochs(self.directory) if e <= epoch][-self._keep :]
        for e in self._epochs(self.directory):
            if e not in kept:
                self._path(e).unlink(missing_ok=True)
        for e in self._epochs(self.directory / "replay"):
            if not kept[0] - self._replay_epochs < e <= epoch:
                self._segment_path(e).unlink(missing_ok=True)

    def _remove_unfinished(self) -> None:
        for path in self.directory.glob(f"**/*{_UNFINISHED}"):
            path.unlink(missing_ok=True)

    def _survivor(self, epoch: int) -> str:
        earlier = [e for e in self._epochs(self.directory) if e <= epoch]
        if not earlier:
            return "there is no earlier checkpoint; free some space and start again"
        return (
            f"the checkpoint of epoch {earlier[-1]} survives in {self._path(earlier[-1])}; free some space and resume"
        )

    def _check_identity(self, path: Path, found: dict[str, Any]) -> None:
        differing = [
            f"{name} is {found.get(name)!r} there and {self._identity.get(name)!r} here"
            for name in sorted(found.keys() | self._identity.keys())
            if found.get(name) != self._identity.get(name)
        ]
        if differing:
            raise CheckpointError(
                f"{path} is of another run: {'; '.join(differing)}; resume with the settings it was made with, or "
                "train in another directory"
            )


def write_tree(path: Path, tree: Any, info: Mapping[str, Any]) -> None:
    """One pytree of arrays and some JSON as one file, which appears whole or not at all."""
    content, _ = _encode(_flatten(tree), {"format": _FORMAT, **info})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write({path: content})
    except OSError as error:
        raise CheckpointError(f"could not write {path}: {error.strerror}; free some space") from error


def read_tree(path: Path, template: Any) -> tuple[Any, dict[str, Any]]:
    """What `write_tree` wrote, after checking it, as a pytree like `template`; None gives the arrays by name."""
    try:
        arrays, info, _ = _read(path)
    except DamagedFileError as damage:
        raise CheckpointError(str(damage)) from damage
    return (arrays if template is None else _unflatten(path, arrays, template)), info


def _flatten(tree: Any) -> Arrays:
    """The leaves of a pytree by their paths, such as ".actor['w']"."""
    arrays = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = jax.tree_util.keystr(path)
        if jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key):
            raise TypeError(f"{name} is a PRNG key, which has no array format; keep jax.random.key_data of it instead")
        array = np.asarray(leaf, order="C")  # safetensors copies memory as it lies
        if array.dtype.kind not in "biuf":
            raise TypeError(f"{name} has dtype {array.dtype}; a checkpoint holds booleans, integers and floats")
        arrays[name] = array
    return arrays


def _unflatten(path: Path, arrays: Arrays, template: Any) -> Any:
    """The stored arrays as a pytree like `template`."""
    leaves, treedef = jax.tree_util.tree_flatten_with_path(template)
    expected = {jax.tree_util.keystr(key_path): _describe(leaf) for key_path, leaf in leaves}
    found = {name: _describe(array) for name, array in arrays.items()}
    differing = [
        f"{name} is {found.get(name, 'absent')} there and {expected.get(name, 'absent')} here"
        for name in sorted(found.keys() | expected.keys())
        if found.get(name) != expected.get(name)
    ]
    if differing:
        more = f"; and {len(differing) - 4} more" if len(differing) > 4 else ""
        raise CheckpointError(f"{path} does not fit this run: {'; '.join(differing[:4])}{more}")
    return jax.tree_util.tree_unflatten(treedef, [arrays[name] for name in expected])


def _describe(leaf: Any) -> str:
    leaf = leaf if hasattr(leaf, "dtype") else np.asarray(leaf)
    return f"{leaf.dtype}{list(leaf.shape)}"


def _encode(arrays: Arrays, info: Mapping[str, Any]) -> tuple[bytes, str]:
    """A file's bytes and its checksum, which is in the file as well."""
    text = json.dumps(info)
    checksum = _checksum(arrays, text)
    return to_safetensors(arrays, {"info": text, "sha256": checksum}), checksum


def _checksum(arrays: Arrays, text: str) -> str:
    """Of everything that a reader uses. Names, dtypes and shapes count: a flipped bit in them moves data around."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(f"\n{name} {_describe(arrays[name])}\n".encode())
        digest.update(arrays[name].reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _read(path: Path) -> tuple[Arrays, dict[str, Any], str]:
    """A file's arrays, information and checksum, after checking that they are as they were written."""
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            arrays = {name: np.asarray(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except FileNotFoundError as error:
        raise DamagedFileError(f"{path} is missing") from error
    except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        raise DamagedFileError(f"{path} cannot be read ({error})") from error
    text, checksum = metadata.get("info", ""), metadata.get("sha256", "")
    if _checksum(arrays, text) != checksum:
        raise DamagedFileError(f"{path} does not match its checksum")
    info = json.loads(text)
    if info["format"] != _FORMAT:
        raise CheckpointError(f"{path} has format {info['format']}; this version of cvpo reads format {_FORMAT}")
    return arrays, info, checksum


def _read_segment(path: Path, checksum: str) -> Arrays:
    arrays, _, found = _read(path)
    if found != checksum:
        raise DamagedFileError(f"{path} is not the segment that the checkpoint was made with")
    return arrays


def _write(files: Mapping[Path, bytes]) -> None:
    """Let files appear whole or not at all, in order, and durably; needs space for all before the first appears."""
    try:
        for path, content in files.items():
            with open(_unfinished(path), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for path in files:
            os.replace(_unfinished(path), path)
            _fsync_directory(path.parent)
    except OSError:
        for path in files:
            _unfinished(path).unlink(missing_ok=True)  # the disk may be full: leave nothing useless on it
        raise


def _unfinished(path: Path) -> Path:
    return path.with_name(path.name + _UNFINISHED)


def _fsync_directory(path: Path) -> None:
    """A rename is durable only once its directory is."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
