"""The run directory: what was asked for, what happened epoch by epoch, and who may write to it.

    config.json     the settings of the run, and under "provenance" the software it ran with
    metrics.jsonl   one JSON object per epoch
    checkpoints/    what a resumed run goes on from
    policy/         the trained policy
    tensorboard/    the same metrics as events, if asked for
    videos/         films of the policy, if asked for
    inspect/        pictures and films of its violations, if asked for
    spec.json       of a run of a sweep: what was asked for
    finished.json   of a run of a sweep: that it is done, and with how many steps
    worker.log      of a run of a sweep: what the training process wrote to its output
    error.txt       the error that ended the run
    .lock           held by the process that trains

Their names are here and nowhere else; those inside a folder belong to what writes it. config.json and metrics.jsonl
are strict JSON; a number that JSON lacks is written as the string "NaN", "Infinity" or "-Infinity", which the readers
here turn back into a float. Nothing here imports JAX: reports read directories without it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cvpo.errors import UserError
from cvpo.runs.atomic import no_link, why_not_written, write_file, write_text
from cvpo.runs.provenance import provenance, versions
from cvpo.runs.strict_json import parse_json, require_fields, to_json

CONFIG = "config.json"
METRICS = "metrics.jsonl"
CHECKPOINTS = "checkpoints"
POLICY = "policy"
TENSORBOARD = "tensorboard"
VIDEOS, INSPECT = "videos", "inspect"
SPEC, FINISHED, WORKER_LOG = "spec.json", "finished.json", "worker.log"
ERROR = "error.txt"
LOCK = ".lock"
_LARGEST_CONFIG = 1_000_000  # bytes
_PARTS = (METRICS, CHECKPOINTS, POLICY, TENSORBOARD, CONFIG)
_CONFIG_FIELDS: dict[str, type | tuple[type, ...]] = {
    "env": str, "source": (str, type(None)), "algorithm": str, "steps": int, "seed": int, "cost_limit": list,
    "preset": str, "config": dict, "provenance": dict,
}  # fmt: skip


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
        """A new run. `overwrite` deletes the run that is already there, films included; other files there stay."""
        path = Path(path)
        text = to_json({**config, "provenance": provenance()}, indent=2) + "\n"
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunDirectoryError(why_not_written(path, error)) from error
        run = cls(path, _lock(path))
        if any((path / name).exists() for name in _PARTS):
            if not overwrite:
                run.close()
                raise RunDirectoryError(
                    f"{path} already holds a run; resume it (--resume), choose another directory (--run-dir), or "
                    "delete it (--overwrite)"
                )
            for name in (FINISHED, ERROR, VIDEOS, INSPECT, *_PARTS):
                _remove(path / name)
        write_text(path / CONFIG, text)
        return run

    @classmethod
    def open(cls, path: str | Path) -> RunDirectory:
        """A run that is there already, to be resumed. Warns if it was started with other versions."""
        path = Path(path)
        then = read_config(path)["provenance"].get("versions", {})
        changes = [
            f"{name} {then.get(name)} -> {version}" for name, version in versions().items() if then.get(name) != version
        ]
        if changes:
            warnings.warn(
                f"{path} was started with other versions ({', '.join(changes)}): its results may differ from those of "
                "a run that was never stopped",
                stacklevel=2,
            )
        return cls(path, _lock(path))

    @property
    def config(self) -> dict[str, Any]:
        return read_config(self.path)

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    def append_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Add an epoch's line, durably. Do it before the epoch's checkpoint: a resumed run cuts a line too many."""
        line = to_json(metrics) + "\n"
        try:
            with open(self.path / METRICS, "a", opener=no_link) as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RunDirectoryError(f"{why_not_written(self.path / METRICS, error)}; then resume") from error

    def set_steps(self, steps: int) -> None:
        """Note for how long the run is trained, if that is other than it was begun for."""
        config = self.config
        if config["steps"] != steps:
            write_text(self.path / CONFIG, to_json({**config, "steps": steps}, indent=2) + "\n")

    def require_no_results(self) -> None:
        """Refuse to begin anew over a run's epochs. One alone may have been cut off before its checkpoint."""
        epochs = len(_finished_lines(self.path))
        if epochs > 1:
            raise RunDirectoryError(
                f"{self.path} holds {epochs} epochs and no checkpoint to go on from; they are kept as they are, and to "
                "train for longer, choose another directory"
            )

    def truncate_metrics(self, after_epoch: int) -> None:
        """Drop what follows the end of `after_epoch`: the lines of later epochs, and one that was not finished.

        The epochs up to there must all be present, each once: a checkpoint without them is not of this run.
        """
        kept = _finished_lines(self.path)[: after_epoch + 1]
        for epoch in range(after_epoch + 1):
            found = _parse_line(self.path, epoch, kept[epoch]).get("epoch") if epoch < len(kept) else None
            if found != epoch:
                raise RunDirectoryError(
                    f"{self.path / METRICS} has "
                    + (f"epoch {found!r} where epoch {epoch} belongs" if epoch < len(kept) else f"no epoch {epoch}")
                    + f", but the newest checkpoint is of epoch {after_epoch}; restore the file from a copy"
                )
        write_file(self.path / METRICS, b"".join(kept))

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
    """The settings of the run in directory `path`, with its "provenance". Anybody may have written them."""
    file = Path(path) / CONFIG
    try:
        size = file.stat().st_size
        content = file.read_bytes() if size <= _LARGEST_CONFIG else b""
    except OSError as error:
        raise RunDirectoryError(f"{path} holds no run: cannot read {CONFIG} ({error.strerror})") from error
    if size > _LARGEST_CONFIG:
        raise RunDirectoryError(f"{file} has {size:,} bytes; the settings of a run have at most {_LARGEST_CONFIG:,}")
    config = require_fields(parse_json(content, file), _CONFIG_FIELDS, file)
    require_fields(config["provenance"], {"id": str, "versions": dict}, f"the provenance of {file}")
    for limit in config["cost_limit"]:
        require_fields({"cost_limit": limit}, {"cost_limit": float}, file)
    return config


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """The metrics of the run in directory `path`, one dict per epoch; also while it is being written."""
    path = Path(path)
    return [_parse_line(path, number, line) for number, line in enumerate(_finished_lines(path))]


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody trains in the run directory meanwhile; refused if somebody does."""
    with RunDirectory(path, _lock(path)):
        yield


def _lock(path: Path) -> int:
    """An exclusive lock that the system releases when this process ends, however it ends."""
    try:
        descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise RunDirectoryError(why_not_written(path / LOCK, error)) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise RunDirectoryError(
            f"another process is training in {path}; wait for it, stop it, or choose another directory"
        ) from error
    return descriptor


def _finished_lines(path: Path) -> list[bytes]:
    """The lines of the metrics; not a last one without its end, which a crash or a writer left."""
    try:
        content = (path / METRICS).read_bytes()
    except FileNotFoundError:
        read_config(path)  # explains what is wrong, unless this is a run before its first epoch
        return []
    except OSError as error:
        raise RunDirectoryError(f"cannot read {path / METRICS} ({error.strerror})") from error
    return [line + b"\n" for line in content.split(b"\n")[:-1]]


def _parse_line(path: Path, index: int, line: bytes) -> dict[str, Any]:
    where = f"{path / METRICS}, line {index + 1}"
    return require_fields(parse_json(line, where), {}, where)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
