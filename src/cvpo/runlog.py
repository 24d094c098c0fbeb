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

import datetime
import fcntl
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import shutil
import subprocess
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

CONFIG = "config.json"
METRICS = "metrics.jsonl"
FINISHED, ERROR = "finished.json", "error.txt"  # how a run of a sweep ended
_PARTS = (METRICS, "checkpoints", "policy", "tensorboard", CONFIG)
_PACKAGES = ("cvpo", "jax", "jaxlib", "numpy", "optax", "mujoco", "gymnasium")
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class RunDirectoryError(RuntimeError):
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
        text = to_json({**config, "provenance": _provenance()}, indent=2) + "\n"
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
        replace_text(path / CONFIG, text)
        return run

    @classmethod
    def open(cls, path: str | Path) -> RunDirectory:
        """A run that is there already, to be resumed. Warns if it was begun with other versions."""
        path = Path(path)
        then = read_config(path)["provenance"]["versions"]
        changes = [
            f"{name} {then.get(name)} -> {version}"
            for name, version in _versions().items()
            if then.get(name) != version
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
            replace_text(self.path / CONFIG, to_json({**config, "steps": steps}, indent=2) + "\n")

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
        replace_text(self.path / METRICS, "".join(kept))

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
        return _restore(json.loads(text))
    except ValueError as error:
        raise RunDirectoryError(f"{Path(path) / CONFIG} is not JSON ({error}); restore it from a copy") from error


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """The metrics of the run in directory `path`, one dict per epoch; also while it is being written."""
    lines = _metrics_lines(Path(path))
    # most lines have nothing to restore, and looking at each of their values takes longer than parsing them
    return [_restore(metrics) if any(word in line for word in _NON_FINITE) else metrics for line, metrics in lines]


class Sink(Protocol):
    """Somewhere else that wants every epoch's metrics."""

    def write(self, metrics: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


def check_sinks(tensorboard: bool, wandb: bool) -> None:
    """Refuse what is not installed, before a run is begun."""
    for wanted, module, what in ((tensorboard, "tensorboard", "TensorBoard"), (wandb, "wandb", "Weights & Biases")):
        if wanted and importlib.util.find_spec(module) is None:
            raise ImportError(f"{what} needs an extra, cvpo[{module}]; in a clone: pip install '.[{module}]'")


class TensorBoardSink:
    """Numbers as TensorBoard events, by environment steps.

    `after_steps` is where a resumed run goes on: readers drop what an earlier process wrote beyond it.
    """

    def __init__(self, directory: Path, after_steps: int = 0):
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(directory))
        start = SessionLog(status=SessionLog.START)
        self._writer.add_event(Event(wall_time=time.time(), step=after_steps + 1, session_log=start))

    def write(self, metrics: Mapping[str, Any]) -> None:
        values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in _numbers(metrics).items()]
        summary = self._summary(value=values)
        self._writer.add_event(self._event(wall_time=time.time(), step=int(metrics["steps"]), summary=summary))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class WandbSink:
    """Numbers as a Weights & Biases run, by environment steps.

    A resumed run goes on under the same id. Its service ignores steps that it has seen, so what a resumed run repeats
    stays as it was.
    """

    def __init__(self, run: RunDirectory, project: str = "cvpo"):
        import wandb

        config = run.config
        self._run = wandb.init(
            project=project,
            name=run.path.resolve().name,
            id=config["provenance"]["id"],
            resume="allow",
            config=config,
            dir=str(run.path),
        )

    def write(self, metrics: Mapping[str, Any]) -> None:
        self._run.log(_numbers(metrics), step=int(metrics["steps"]))

    def close(self) -> None:
        self._run.finish()


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items() if not isinstance(value, str | None)}


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


def replace_text(path: Path, text: str) -> None:
    """Give a file its new content in one instant."""
    unfinished = path.with_name(path.name + ".unfinished")
    with unfinished.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def to_json(value: Any, indent: int | None = None) -> str:
    """Strict JSON, with the strings that stand for what it lacks."""
    return json.dumps(_plain(value), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    """`value` in JSON's own types; arrays and their scalars become lists and numbers."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or type(value) in (bool, int, float, str):
        return value
    if hasattr(value, "tolist"):  # NumPy's and JAX's
        return _plain(value.tolist())
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a run's files hold numbers, strings, lists and dicts, got {value!r} of {type(value)}")


def _restore(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _restore(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_restore(item) for item in value]
    return _NON_FINITE.get(value, value) if isinstance(value, str) else value


def _provenance() -> dict[str, Any]:
    """What a run's results may depend on beyond its settings."""
    return {
        "id": uuid.uuid4().hex[:12],
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": _versions(),
        "platform": platform.platform(),
        "git": _git_revision(),
    }


def _versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def _git_revision() -> dict[str, Any] | None:
    """The revision of the repository that the current directory is in, and whether tracked files differ from it."""
    try:
        revision = _git("rev-parse", "HEAD").strip()
        return {"revision": revision, "dirty": bool(_git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, timeout=10).stdout
