"""A run's state on disk, so that a killed run goes on as if it had never stopped.

An epoch's end is the whole state: the learner, a few counters and the replay. The replay's old epochs never change, so
each is written once, as a segment of its own, and a checkpoint names the segments it needs by their checksums:

    checkpoints/epoch-000012.safetensors          the learner's arrays; counters and the list of segments in the header
    checkpoints/replay/epoch-000012.safetensors   what epoch 12 added to the replay

Every file appears under its name only when complete and flushed to the disk, and nothing is deleted before the
checkpoint that makes it unnecessary is durable: whatever the instant of a crash, the checkpoint before it is whole.

What this does not protect from: the kept checkpoints share the replay's segments, so a segment that the disk damages
later is missing to all of them. There is no second copy, which would double the space; keep one of the run directory.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cvpo.runs.array_file import SUFFIX, ArrayFileError, Arrays, DamagedFileError, encode, read
from cvpo.runs.atomic import UNFINISHED, why_not_written, write_files
from cvpo.runs.pytrees import flatten, unflatten
from cvpo.runs.strict_json import require_fields

REPLAY = "replay"  # below the checkpoints
_FIELDS = {"epoch": int, "identity": dict, "counters": dict, "segments": dict}


class CheckpointError(ArrayFileError):
    """A checkpoint could not be written, none could be read, or the one found is of another run."""


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
            files[segment_path], segments[epoch] = encode(flatten(segment), {})
            segments = {e: checksum for e, checksum in segments.items() if epoch - self._replay_epochs < e <= epoch}
        self._require_segments(e for e in segments if e != epoch)
        info = {
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
            raise CheckpointError(f"{why_not_written(path, error)}; {self._survivor(epoch)}") from error
        self._segments = segments
        self._prune(epoch)
        return path

    def load(self, learner: Any, segment: Any = None) -> Checkpoint | None:
        """The newest checkpoint that is whole, or None if there is no checkpoint at all.

        `learner` and `segment` give structure, shapes and dtypes (arrays or `jax.ShapeDtypeStruct`), and what is
        loaded must match them. Damaged checkpoints are passed over with a warning.
        """
        epochs = saved_epochs(self.directory)
        damages = []
        for epoch in reversed(epochs):
            try:
                return self._read(epoch, learner, segment)
            except DamagedFileError as damage:
                damages.append(str(damage))
                warnings.warn(f"the checkpoint of epoch {epoch} is passed over: {damage}", stacklevel=2)
        if not epochs:
            return None
        reason = "the warnings say what is wrong with each"
        if len(damages) > 1 and len(set(damages)) == 1:
            reason = f"all of them need the same part of the replay, and {damages[0]}"
        raise CheckpointError(
            f"none of the {len(epochs)} checkpoints in {self.directory} is whole: {reason}. Restore the directory from "
            "a copy, or start the run again in another one"
        )

    def _read(self, epoch: int, learner: Any, segment: Any) -> Checkpoint:
        """The checkpoint of `epoch` with all that it needs, checked."""
        path = self._path(epoch)
        arrays, info, _ = read(path)
        try:
            require_fields(info, _FIELDS, path)
            segments = {int(e): checksum for e, checksum in info["segments"].items()}
        except ValueError as error:  # BadFile among them
            raise DamagedFileError(f"{path} is no checkpoint: {error}") from error
        if info["epoch"] != epoch:
            raise DamagedFileError(f"{path} holds the checkpoint of epoch {info['epoch']}, not of {epoch}")
        self._check_identity(path, info["identity"])
        files = {e: (self._segment_path(e), checksum) for e, checksum in segments.items()}
        for segment_path, checksum in files.values():
            _read_segment(segment_path, checksum)
        state = unflatten(path, arrays, learner)
        self._segments = segments
        return Checkpoint(epoch, state, info["counters"], files, segment)

    def _path(self, epoch: int) -> Path:
        return self.directory / f"epoch-{epoch:06d}{SUFFIX}"

    def _segment_path(self, epoch: int) -> Path:
        return self.directory / REPLAY / f"epoch-{epoch:06d}{SUFFIX}"

    def _prune(self, epoch: int) -> None:
        kept = [e for e in saved_epochs(self.directory) if e <= epoch][-self._keep :]
        for e in saved_epochs(self.directory):
            if e not in kept:
                self._path(e).unlink(missing_ok=True)
        for e in saved_epochs(self.directory / REPLAY):
            if not kept[0] - self._replay_epochs < e <= epoch:
                self._segment_path(e).unlink(missing_ok=True)

    def _require_segments(self, epochs: Iterable[int]) -> None:
        """Notice at the next save, not at the next resume, that somebody has removed what resuming needs."""
        gone = [path for path in map(self._segment_path, epochs) if not path.exists()]
        if gone:
            raise CheckpointError(
                f"{gone[0]} was removed while the run was training, and no further checkpoint could be resumed without "
                "it; put it back and resume, or start the run again in another directory"
            )

    def _remove_unfinished(self) -> None:
        for path in self.directory.glob(f"**/*{UNFINISHED}"):
            path.unlink(missing_ok=True)

    def _survivor(self, epoch: int) -> str:
        earlier = [e for e in saved_epochs(self.directory) if e <= epoch]
        if not earlier:
            return "there is no earlier checkpoint, so start again after that"
        return f"the checkpoint of epoch {earlier[-1]} survives in {self._path(earlier[-1])}, so resume after that"

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


def saved_epochs(directory: Path) -> list[int]:
    """The epochs whose files in `directory` are finished, the oldest first."""
    matches = (re.fullmatch(rf"epoch-(\d+){SUFFIX}", path.name) for path in directory.glob("epoch-*"))
    return sorted(int(match[1]) for match in matches if match)


def _read_segment(path: Path, checksum: str) -> Arrays:
    arrays, _, found = read(path)
    if found != checksum:
        raise DamagedFileError(f"{path} is not the segment that the checkpoint was made with")
    return arrays
