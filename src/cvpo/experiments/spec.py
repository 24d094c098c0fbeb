"""RunSpec: all that decides what a run is. A spec and a directory are all that is handed to whoever trains it."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cvpo.errors import BadValue, UserError
from cvpo.runs.atomic import write_text
from cvpo.runs.directory import FINISHED, SPEC, read_config
from cvpo.runs.strict_json import BadFile, parse_json, require_fields, to_json

if TYPE_CHECKING:
    from cvpo.algorithms.config import LoopConfig
    from cvpo.training.train import Run

_LONGEST_NAME = 200  # file systems allow 255 bytes


@dataclass(frozen=True)
class RunSpec:
    """One run. JSON holds it: numbers, strings, lists and dicts only."""

    env: str
    """A task, a Gymnasium id, or "module:id" for an id that is registered when `module` is imported."""
    algorithm: str
    steps: int
    seed: int = 0
    cost_limit: tuple[float, ...] | None = None
    """One number for each constraint; None: the task's own."""
    preset: str = "default"
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings over those of the preset."""

    @property
    def method(self) -> str:
        """The algorithm and whatever is not its default, as a directory's name: "cvpo+particles=16"."""
        parts = [self.algorithm]
        if self.preset != "default":
            parts.append(self.preset)
        if self.cost_limit is not None:
            parts.append(f"cost_limit={_word(self.cost_limit)}")
        parts += [f"{key}={_word(value)}" for key, value in sorted(self.config.items())]
        return _file_name("+".join(parts))

    @property
    def path(self) -> Path:
        """Where the run lies below the output directory: TASK/METHOD/seed-N."""
        return Path(_file_name(self.env)) / self.method / f"seed-{self.seed}"

    def settings(self) -> LoopConfig:
        """All settings of the run, those of its preset included."""
        from cvpo.presets import make_config

        return make_config(self.algorithm, self.preset, dict(self.config))

    def check(self) -> None:
        """Refuse what cannot be trained, before anything is started."""
        from cvpo.training.train import check_name, check_numbers, resolve_limits

        check_numbers(self.steps, self.seed)
        check_name(self.env, self.settings())
        resolve_limits(self.env, self.algorithm, self.cost_limit)

    def same_run(self, other: RunSpec) -> bool:
        """Whether both differ at most in how long they train."""
        return dataclasses.replace(self, steps=other.steps).to_json() == other.to_json()

    def to_json(self) -> str:
        return to_json(dict(sorted(dataclasses.asdict(self).items())) | {"config": dict(sorted(self.config.items()))})

    @staticmethod
    def from_json(text: str | bytes, where: object = "the text") -> RunSpec:
        values = require_fields(parse_json(text, where), _FIELDS, where)
        if unknown := sorted(values.keys() - _FIELDS.keys()):
            raise BadFile(f"{where} has {unknown[0]!r}, which no run has")
        limit = values["cost_limit"]
        return RunSpec(**values | {"cost_limit": None if limit is None else tuple(limit)})

    def write(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        write_text(directory / SPEC, self.to_json() + "\n")

    @staticmethod
    def read(directory: Path) -> RunSpec:
        return RunSpec.from_json((directory / SPEC).read_bytes(), directory / SPEC)


_FIELDS: dict[str, type | tuple[type, ...]] = {
    "env": str, "algorithm": str, "steps": int, "seed": int, "cost_limit": (list, type(None)), "preset": str,
    "config": dict,
}  # fmt: skip


def run_spec(spec: RunSpec, directory: str | Path) -> Run:
    """Train a spec's run in `directory`, from its newest checkpoint if it has one, and note there that it is done."""
    from cvpo.training.train import train

    run = train(
        spec.env,
        spec.algorithm,
        steps=spec.steps,
        seed=spec.seed,
        cost_limit=spec.cost_limit,
        preset=spec.preset,
        config=dict(spec.config),
        run_dir=directory,
        resume=True,
        quiet=True,
    )
    write_text(Path(directory) / FINISHED, json.dumps({"steps": spec.steps}) + "\n")
    return run


def is_finished(spec: RunSpec, directory: Path) -> bool:
    """Whether the directory holds this run to its end. One that was made with other defaults is another run."""
    from cvpo.presets import make_config

    try:
        finished = directory / FINISHED
        steps = require_fields(parse_json(finished.read_bytes(), finished), {"steps": int}, finished)["steps"]
        if steps < spec.steps or not spec.same_run(RunSpec.read(directory)):
            return False
        saved = make_config(spec.algorithm, overrides=read_config(directory)["config"])
    except (OSError, UserError):  # nothing there that can be read, or settings that there are no longer
        return False
    asked = spec.settings()
    if asked.envs is None:  # the episodes' length decided it
        asked = dataclasses.replace(asked, envs=saved.envs)
    return saved == asked


def grid(
    tasks: Sequence[str],
    algorithms: Sequence[str],
    seeds: Iterable[int],
    steps: int,
    *,
    settings: Mapping[str, Sequence[Any]] | None = None,
    preset: str = "default",
    cost_limit: tuple[float, ...] | None = None,
) -> list[RunSpec]:
    """Every combination; `settings` has the values that each setting takes. Seeds change last.

    So whatever is done when a sweep is stopped covers all methods with the first seeds.
    """
    settings = settings or {}
    seeds = list(seeds)
    for name, values in {"tasks": tasks, "algorithms": algorithms, "seeds": seeds, **settings}.items():
        if not values:
            raise BadValue(f"a grid needs at least one value of {name}, got none")
    return [
        RunSpec(task, algorithm, steps, seed, cost_limit, preset, dict(zip(settings, values, strict=True)))
        for seed in seeds
        for task in tasks
        for algorithm in algorithms
        for values in itertools.product(*settings.values())
    ]


def parse_settings(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Values by setting from texts such as "particles=16,32" or "hidden=[64],[64,64]"."""
    settings = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not key or not equals or not values:
            raise BadValue(f"a setting is written key=value or key=a,b, got {text!r}")
        name = key.replace("-", "_")
        if name in settings:
            raise BadValue(f"{name} is set twice, the second time by {text!r}; write {name}=a,b for several values")
        # commas outside of brackets
        settings[name] = [_parse(value) for value in re.split(r",(?![^\[]*\])", values)]
    return settings


def _parse(text: str) -> Any:
    python_words = {"True": True, "False": False, "None": None, "inf": math.inf}
    try:
        return python_words[text] if text in python_words else json.loads(text)
    except ValueError:
        return text


def _word(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "x".join(map(_word, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.=+-]", "-", text)[:_LONGEST_NAME]
