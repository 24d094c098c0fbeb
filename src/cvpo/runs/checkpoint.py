"""A run's state on disk, so that a killed run goes on as if it had never stopped.

An epoch's end is the whole state: the learner, a few counters and the replay. The replay's old epochs never change, so
each is written once, as a segment of its own, and a checkpoint names the segments it needs by their checksums:

    checkpoints/epoch-000012.safetensors          the learner's arrays; counters and the list of segments in the header
    checkpoints/replay/epoch-000012.safetensors   what epoch 12 added to the replay

Every file appears under its name only when complete and flushed to the disk, and nothing is deleted before the
checkpoint that makes it unnecessary is durable: whatever the instant of a crash, the checkpoint before it is whole.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cvpo.runs.array_file import (
    FORMAT,
    SUFFIX,
    Arrays,
    CheckpointError,
    DamagedFileError,
    encode,
    flatten,
    read,
    unflatten,
)
from cvpo.runs.atomic import UNFINISHED, write_files


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
            yield epoch, unflatten(path, _read_segment(path, checksum), self._segment_template)


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
            files[segment_path], segments[epoch] = encode(flatten(segment), {"format": FORMAT})
            segments = {e: checksum for e, checksum in segments.items() if epoch - self._replay_epochs < e <= epoch}
        info = {
            "format": FORMAT,
            "epoch": epoch,
            "identity": self._identity,
            "counters": dict(counters),
            "segments": segments,
        }
        files[path], _ = encode(flatten(learner), info)
        try:
            segment_path.parent.mkdir(parents=True, exist_ok=True)
            self._remove_unfinished()
            write_files(files)
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
                arrays, info, _ = read(path)
                self._check_identity(path, info["identity"])
                segments = {int(e): checksum for e, checksum in info["segments"].items()}
                files = {e: (self._segment_path(e), checksum) for e, checksum in segments.items()}
                for segment_path, checksum in files.values():
                    _read_segment(segment_path, checksum)
            except DamagedFileError as damage:
                warnings.warn(f"the checkpoint of epoch {epoch} is passed over: {damage}", stacklevel=2)
                continue
            self._segments = segments
            return Checkpoint(epoch, unflatten(path, arrays, learner), info["counters"], files, segment)
        if epochs:
            raise CheckpointError(
                f"none of the {len(epochs)} checkpoints in {self.directory} is whole (the warnings say what is wrong "
                "with each); restore the directory from a copy, or start the run again in another one"
            )
        return None

    def _path(self, epoch: int) -> Path:
        return self.directory / f"epoch-{epoch:06d}{SUFFIX}"

    def _segment_path(self, epoch: int) -> Path:
        return self.directory / "replay" / f"epoch-{epoch:06d}{SUFFIX}"

    def _epochs(self, directory: Path) -> list[int]:
        matches = (re.fullmatch(rf"epoch-(\d+){SUFFIX}", path.name) for path in directory.glob("epoch-*"))
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
        for path in self.directory.glob(f"**/*{UNFINISHED}"):
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


def _read_segment(path: Path, checksum: str) -> Arrays:
    arrays, _, found = read(path)
    if found != checksum:
        raise DamagedFileError(f"{path} is not the segment that the checkpoint was made with")
    return arrays
