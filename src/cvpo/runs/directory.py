"""The run directory: what was asked for, what happened epoch by epoch, and who may write to it.

    config.json     the settings of the run, and under "provenance" the software it ran with
    metrics.jsonl   one JSON object per epoch
    checkpoints/    what a resumed run goes on from
    policy/         the trained policy
    tensorboard/    the same metrics as events, if asked for

Both files are strict JSON; a number that JSON lacks is written as the string "NaN", "Infinity" or "-Infinity", which
the readers here turn back into a float. Nothing here imports JAX: reports read directories without it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cvpo.errors import UserError
from cvpo.runs.atomic import write_text
from cvpo.runs.provenance import provenance, versions
from cvpo.runs.strict_json import NON_FINITE, restore, to_json

CONFIG = "config.json"
METRICS = "metrics.jsonl"
FINISHED, ERROR = "finished.json", "error.txt"  # how a run of a sweep ended
_PARTS = (METRICS, "checkpoints", "policy", "tensorboard", CONFIG)


class RunDirectoryError(UserError, RuntimeError):
    """A run directory that holds another run, none, or one that is being trained."""


class RunDirectory:
    """A run directory open for training: locked against every other process until `close` or the end of this one."""

    def __init__(self, path: Path, lock: int):
        """Use `create` or `open`."""
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, path: str | Path, config: Mapping[str, Any], *, overwrite: bool = False) -> RunDirectory:
        """A new run. `overwrite` deletes the run that is already there; other files in the directory stay."""
        path = Path(path)
        text = to_json({**config, "provenance": provenance()}, indent=2) + "\n"
        path.mkdir(parents=True, exist_ok=True)
        run = cls(path, _lock(path))
        if any((path / name).exists() for name in _PARTS):
            if not overwrite:
                run.close()
                raise RunDirectoryError(
                    f"{path} already holds a run; resume it, choose another directory, or overwrite it"
                )
            for name in (FINISHED, ERROR, *_PARTS):
                _remove(path / name)
        write_text(path / CONFIG, text)
        return run

    @classmethod
    def open(cls, path: str | Path) -> RunDirectory:
        """A run that is there already, to be resumed. Warns if it was begun with other versions."""
        path = Path(path)
        then = read_config(path)["provenance"]["versions"]
        changes = [
            f"{name} {then.get(name)} -> {version}" for name, version in versions().items() if then.get(name) != version
        ]
        if changes:
            warnings.warn(
                f"{path} was begun with other versions ({', '.join(changes)}): its results may differ from those of a "
                "run that was never stopped",
                stacklevel=2,
            )
        return cls(path, _lock(path))

    @property
    def config(self) -> dict[str, Any]:
        return read_config(self.path)

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def append_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Add an epoch's line, durably. Do it before the epoch's checkpoint: a resumed run cuts a line too many."""
        line = to_json(metrics) + "\n"
        try:
            with (self.path / METRICS).open("a") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RunDirectoryError(
                f"could not write {self.path / METRICS}: {error.strerror}; free some space and resume"
            ) from error

    def set_steps(self, steps: int) -> None:
        """Note for how long the run is trained, if that is other than it was begun for."""
        config = self.config
        if config["steps"] != steps:
            write_text(self.path / CONFIG, to_json({**config, "steps": steps}, indent=2) + "\n")

    def require_no_results(self) -> None:
        """Refuse to begin anew over a run's epochs. One alone may have been cut off before its checkpoint."""
        epochs = sum(1 for _ in _metrics_lines(self.path))
        if epochs > 1:
            raise RunDirectoryError(
                f"{self.path} holds {epochs} epochs and no checkpoint to go on from; they are kept as they are, and to "
                "train for longer, choose another directory"
            )

    def truncate_metrics(self, after_epoch: int) -> None:
        """Drop what follows the end of `after_epoch`: the lines of later epochs, and one that was not finished."""
        kept = [line for line, metrics in _metrics_lines(self.path) if metrics["epoch"] <= after_epoch]
        write_text(self.path / METRICS, "".join(kept))

    def close(self) -> None:
        """Let other processes train in this directory."""
        if self._lock >= 0:
            fcntl.flock(self._lock, fcntl.LOCK_UN)  # closing is not enough if a forked child shares the descriptor
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_config(path: str | Path) -> dict[str, Any]:
    """The settings of the run in directory `path`, with its "provenance"."""
    try:
        text = (Path(path) / CONFIG).read_text()
    except OSError as error:
        raise RunDirectoryError(f"{path} holds no run: cannot read {CONFIG} ({error.strerror})") from error
    try:
        return restore(json.loads(text))
    except ValueError as error:
        raise RunDirectoryError(f"{Path(path) / CONFIG} is not JSON ({error}); restore it from a copy") from error


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """The metrics of the run in directory `path`, one dict per epoch; also while it is being written."""
    lines = _metrics_lines(Path(path))
    # most lines have nothing to restore, and looking at each of their values takes longer than parsing them
    return [restore(metrics) if any(word in line for word in NON_FINITE) else metrics for line, metrics in lines]


def _lock(path: Path) -> int:
    """An exclusive lock that the system releases when this process ends, however it ends."""
    descriptor = os.open(path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise RunDirectoryError(
            f"another process is training in {path}; wait for it, stop it, or choose another directory"
        ) from error
    return descriptor


def _metrics_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each line of the metrics and what it says; not a last line without its end, which a crash or a writer left."""
    try:
        text = (path / METRICS).read_text()
    except FileNotFoundError:
        read_config(path)  # explains what is wrong, unless this is a run before its first epoch
        return
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if line.endswith("\n"):
            try:
                yield line, json.loads(line)
            except ValueError as error:
                raise RunDirectoryError(f"{path / METRICS}, line {number} is not JSON ({error})") from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
