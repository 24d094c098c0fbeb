"""Further places that get every epoch's metrics: TensorBoard, Weights & Biases."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from cvpo.errors import Unavailable
from cvpo.runs.directory import RunDirectory


class Sink(Protocol):
    """Somewhere else that wants every epoch's metrics."""

    def write(self, metrics: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


def check_sinks(tensorboard: bool, wandb: bool) -> None:
    """Refuse what is not installed, before a run is begun."""
    for wanted, module, what in ((tensorboard, "tensorboard", "TensorBoard"), (wandb, "wandb", "Weights & Biases")):
        if wanted and importlib.util.find_spec(module) is None:
            raise Unavailable(f"{what} needs an extra, cvpo[{module}]; in a clone: pip install '.[{module}]'")


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
