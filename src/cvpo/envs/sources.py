"""Ways to name an environment, and what makes one of each."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium as gym
from gymnasium.vector import VectorEnv

from cvpo.envs.errors import BadEnvironment
from cvpo.envs.worker.make import find_maker, make
from cvpo.envs.worker.problem import Problem, short
from cvpo.runs.trust import REMOTE
from cvpo.tasks.registry import TASKS, find_task


@dataclass(frozen=True)
class Remote:
    """An environment of another Python interpreter, which needs NumPy and the environment's packages only."""

    env: str
    """ "module:id", "module:callable" or an id, as that interpreter knows it."""
    python: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    """For whatever makes the environment; JSON's types."""

    def __post_init__(self) -> None:
        try:
            same = json.loads(json.dumps(self.kwargs)) == self.kwargs
        except (TypeError, ValueError):
            same = False
        if not same:
            raise BadEnvironment(
                f"keyword arguments of {self.env} go to another interpreter as JSON: numbers, strings, lists and dicts "
                f"with strings as keys; got {short(self.kwargs)}"
            )


EnvSource = str | Path | Mapping[str, Any] | Remote | Callable[[], gym.Env | VectorEnv] | VectorEnv


def to_text(source: EnvSource) -> str | None:
    """What makes the environment again, as a run stores it; None for a callable, which only its owner can make again.

    A task has one name, whichever way it was asked for.
    """
    if isinstance(source, Remote):
        return REMOTE + json.dumps(dataclasses.asdict(source))
    task = find_task(source)
    return task.source if task else source if isinstance(source, str) else None


def as_source(source: EnvSource) -> EnvSource:
    """The source of a text that `to_text` made; anything else is one already."""
    if isinstance(source, str) and source.startswith(REMOTE):
        return Remote(**json.loads(source.removeprefix(REMOTE)))
    return source


def remote(env: str, *, python: str, **kwargs: Any) -> Remote:
    """An environment that runs in worker processes of another Python interpreter: pass it to `train` or `evaluate`.

    Args:
        env: "module:id", "module:callable" or an id.
        python: the interpreter's path. It must be Python 3.8 or newer with NumPy and the environment's own packages;
            gym 0.21 to 0.26 and every gymnasium work.
        kwargs: passed to whatever makes the environment; of JSON's types.
    """
    return Remote(env, str(python), kwargs)


def check_known(source: EnvSource) -> None:
    """Refuse a name that is neither a task nor an id of Gymnasium; "module:name" is imported to find out."""
    if isinstance(source, str) and not find_task(source):
        try:
            find_maker(source, TASKS)
        except Problem as problem:
            raise BadEnvironment(str(problem)) from problem.__cause__


def make_plain(source: EnvSource, render: bool = False, **kwargs: Any) -> Any:
    """The environment, or vector environment, itself; the keywords are for one that is made by name."""
    if isinstance(source, Remote):
        from cvpo.envs.remote_env import RemoteEnv

        return RemoteEnv(source, render)
    if task := find_task(source):
        env = _make_by_name(task.id, task.options | kwargs, render)
    elif isinstance(source, str):
        check_known(source)
        env = _make_by_name(source, kwargs, render)
    elif callable(source):
        env = source()
    else:
        raise BadEnvironment(
            "an environment is given as a task's name, an id or a callable that makes it, as several are needed; got "
            f"{short(source)}"
        )
    if not isinstance(env, gym.Env | VectorEnv):
        raise BadEnvironment(
            f"{_maker_name(source)} must make a gymnasium.Env, got {type(env).__name__}"
            + ("; an environment of the old gym runs in an interpreter of its own: see cvpo.remote" * _is_old(env))
        )
    return env


def _make_by_name(name: str, kwargs: dict[str, Any], render: bool) -> Any:
    try:
        return make(name, kwargs, render)
    except Problem as problem:
        raise BadEnvironment(str(problem)) from problem.__cause__


def for_worker(source: EnvSource) -> dict[str, Any]:
    """What a process needs to make the environment, in JSON's types."""
    if isinstance(source, Remote):
        return {"env": source.env, "kwargs": source.kwargs}
    if isinstance(source, str) and not find_task(source):
        return {"env": source, "kwargs": {}}
    try:
        pickled = cloudpickle.dumps(source if callable(source) else partial(make_plain, source))
    except Exception as error:
        raise BadEnvironment(
            f"{_maker_name(source)} cannot be sent to another process: {error}. Let the callable make what it needs "
            "itself, or leave out processes"
        ) from error
    return {"pickle": base64.b64encode(pickled).decode()}


def _maker_name(source: EnvSource) -> str:
    return repr(source) if isinstance(source, str) else getattr(source, "__name__", type(source).__name__)


def _is_old(env: Any) -> bool:
    return any(kind.__module__.split(".")[0] == "gym" for kind in type(env).__mro__)
