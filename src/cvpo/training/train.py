"""`train`: from a task's name and a few settings to a run directory."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cvpo.algorithms.base import Spec
from cvpo.algorithms.config import LoopConfig
from cvpo.algorithms.registry import lookup
from cvpo.envs.adapter import Environments, EnvSource, check_known
from cvpo.policies.policy import Policy, build, load
from cvpo.presets import make_config
from cvpo.runs.directory import CONFIG, TENSORBOARD, RunDirectory, RunDirectoryError, read_config, read_metrics
from cvpo.runs.sinks import Sink, TensorBoardSink, WandbSink, check_sinks
from cvpo.tasks.table import find_task
from cvpo.training.display import Display
from cvpo.training.interrupts import Interrupts
from cvpo.training.loop import Loop, replay_epochs


@dataclass(frozen=True)
class Run:
    """A finished (or stopped) run."""

    path: Path

    def metrics(self) -> list[dict[str, Any]]:
        """One dict an epoch; docs/metrics.md names the keys."""
        return read_metrics(self.path)

    def policy(self) -> Policy:
        return load(self.path)


def train(
    env: EnvSource,
    algorithm: str = "cvpo",
    *,
    steps: int,
    seed: int = 0,
    cost_limit: float | Sequence[float] | None = None,
    run_dir: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    preset: str | None = None,
    config: dict[str, Any] | LoopConfig | None = None,
    quiet: bool = False,
    tensorboard: bool = False,
    wandb: str | None = None,
) -> Run:
    """Train a policy and return its run.

    env: a task's name ("Point-Goal"), a Gymnasium id, or a callable that makes an environment.
    steps: environment steps in all, rounded up to whole epochs.
    cost_limit: expected cost per episode to stay below, one number for each constraint; a built-in task has its own.
    run_dir: where the run is written; runs/ENV/ALGORITHM/seed-N if not given.
    resume: go on from the run directory's newest checkpoint; starts anew if there is none.
    overwrite: delete a run that is in the directory already.
    config: settings over those of the preset, as a dict or as the algorithm's whole Config.
    wandb: the name of a Weights & Biases project to log to as well.
    """
    entry = lookup(algorithm)
    check_known(env)
    check_numbers(steps, seed)
    steps, seed = int(steps), int(seed)  # NumPy's too
    settings = config if isinstance(config, LoopConfig) else make_config(algorithm, preset, config, env)
    if type(settings) is not entry.config:
        ours, theirs = (f"{kind.__module__}.{kind.__qualname__}" for kind in (entry.config, type(settings)))
        raise TypeError(f"{algorithm} takes {ours}, got {theirs}")
    limits = resolve_limits(env, algorithm, cost_limit)
    make_environments = environment_maker(env, settings, limits)
    with make_environments(settings.envs) as environments, make_environments(settings.eval_episodes) as evaluations:
        spec = Spec(
            environments.obs_size, environments.action_size, environments.discrete, limits, environments.episode_length
        )
        learner = build(algorithm, settings, spec)
        replay_epochs(settings, spec)  # refuses what does not fit before a directory is made
        check_sinks(tensorboard, wandb is not None)
        path = Path(run_dir) if run_dir is not None else default_run_dir(environments.name, algorithm, seed)
        description = {
            "env": environments.name,
            "source": environments.source,
            "algorithm": algorithm,
            "off_policy": settings.off_policy,
            "steps": steps,
            "seed": seed,
            "cost_limit": list(limits),
            "preset": preset or "default",
            "config": dataclasses.asdict(settings),
            "spec": dataclasses.asdict(spec),
        }
        with open_run(path, description, resume, overwrite) as directory:
            loop = Loop(algorithm, learner, settings, spec, environments, evaluations, directory, seed)
            with Display(steps, limits, quiet=quiet) as display, Interrupts() as interrupts:
                loop.run(steps, display, interrupts, make_sinks(directory, tensorboard, wandb))
    return Run(path)


def check_numbers(steps: int, seed: int) -> None:
    for name, value, least in (("steps", steps, 1), ("seed", seed, 0)):
        if not value >= least:
            raise ValueError(f"{name} must be >= {least}, got {value}")


def resolve_limits(env: EnvSource, algorithm: str, cost_limit: float | Sequence[float] | None) -> tuple[float, ...]:
    """The cost limits of a run, one for each constraint: as given, or the task's own, or none where none is needed."""
    if cost_limit is None:
        if task := find_task(env):
            return (float(task.cost_limit),)
        if not lookup(algorithm).constrained:
            return (math.inf,)
        raise ValueError(f"{algorithm} needs a cost_limit: the cost per episode that the policy must stay below")
    limits = tuple(float(limit) for limit in np.atleast_1d(np.asarray(cost_limit, float)))
    for limit in limits:
        if not limit >= 0:
            raise ValueError(f"cost_limit must be >= 0, got {limit}")
    if not limits:
        raise ValueError("cost_limit must name at least one limit, got none")
    return limits


def environment_maker(env: EnvSource, settings: LoopConfig, limits: tuple[float, ...]) -> Callable[[int], Environments]:
    return partial(
        Environments,
        env,
        num_costs=len(limits),
        cost_required=any(math.isfinite(limit) for limit in limits),
        cost_keys=settings.cost_keys,
        episode_length=settings.episode_length,
        processes=settings.processes,
        threads=settings.threads,
    )


def default_run_dir(env: str, algorithm: str, seed: int) -> Path:
    task = find_task(env)
    return Path("runs") / (task.name if task else env.replace("/", "-")) / algorithm / f"seed-{seed}"


def open_run(path: Path, description: dict[str, Any], resume: bool, overwrite: bool) -> RunDirectory:
    """A new run directory, or the one to resume after checking that it is the same run."""
    if resume and (path / CONFIG).exists():
        saved = read_config(path)
        theirs, ours = saved | saved["config"], description | description["config"]
        ours = json.loads(json.dumps(ours))  # tuples as JSON has them
        differing = [
            f"{name} is {theirs.get(name)!r} there and {value!r} here"
            for name, value in ours.items()
            if name not in ("steps", "preset", "config", "spec") and theirs.get(name) != value
        ]
        if differing:
            raise RunDirectoryError(
                f"{path} holds another run: {'; '.join(differing)}. Resume it with the settings it was made with, "
                "or choose another directory"
            )
        return RunDirectory.open(path)
    return RunDirectory.create(path, description, overwrite=overwrite)


def make_sinks(directory: RunDirectory, tensorboard: bool, wandb: str | None) -> Callable[[int], list[Sink]]:
    """The further places to log to, made once the step is known from which the run goes on."""

    def make(after_steps: int) -> list[Sink]:
        sinks: list[Sink] = []
        if tensorboard:
            sinks.append(TensorBoardSink(directory.path / TENSORBOARD, after_steps))
        if wandb is not None:
            sinks.append(WandbSink(directory, wandb))
        return sinks

    return make
