"""`train`: from a task's name and a few settings to a run directory."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cvpo.algorithms.base import Spec
from cvpo.algorithms.config import LoopConfig, OffPolicyConfig
from cvpo.algorithms.registry import build, lookup
from cvpo.envs.adapter import Environments
from cvpo.envs.sources import EnvSource, as_source, check_known
from cvpo.errors import BadValue
from cvpo.inputs import LARGEST, whole_number
from cvpo.policies.files import Which
from cvpo.policies.policy import Policy, load
from cvpo.presets import make_config
from cvpo.runs.atomic import write_text
from cvpo.runs.directory import CONFIG, ERROR, TENSORBOARD, RunDirectory, RunDirectoryError, read_config, read_metrics
from cvpo.runs.sinks import Sink, TensorBoardSink, WandbSink, check_sinks
from cvpo.runs.strict_json import BadFile
from cvpo.tasks.registry import find_task
from cvpo.training import compute, messages
from cvpo.training.display import Display
from cvpo.training.interrupts import TrainingInterrupts
from cvpo.training.learners import make_learner
from cvpo.training.loop import Loop, OnEpoch, epochs_of
from cvpo.training.start import Sources


@dataclass(frozen=True)
class Run:
    """A finished (or stopped) run."""

    path: Path

    def metrics(self) -> list[dict[str, Any]]:
        """One dict an epoch; docs/metrics.md names the keys."""
        return read_metrics(self.path)

    def policy(self, which: Which = "newest") -> Policy:
        return load(self.path, which)


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
    name: str | None = None,
    init_from: str | Path | None = None,
    init_replay: bool = False,
    demonstrations: str | Path | None = None,
    on_epoch: OnEpoch | None = None,
    watch: bool = False,
) -> Run:
    """Train a policy and return its run.

    Args:
        env: a task's name ("Point-Goal"), a Gymnasium id, `cvpo.remote(...)`, a callable that makes an environment or a
            vector environment, or a vector environment itself, which has its own number of environments.
        algorithm: the method, such as "cvpo" or "sac-lag"; the command `cvpo algorithms` lists all.
        steps: environment steps in total, rounded up to whole epochs.
        seed: of everything random.
        cost_limit: limit on the expected cost of an episode, one number per constraint. A built-in task has its own.
        run_dir: where the run is written. By default runs/ENV/ALGORITHM/seed-N.
        resume: continue from the newest checkpoint in the run directory; start a new run if there is none.
        overwrite: delete a run that is already in the directory.
        preset: named settings to start from: "default", "paper" or, for the off-policy methods, "reference".
        config: settings that override the preset, as a dict or as the algorithm's whole Config.
        quiet: print nothing.
        tensorboard: write TensorBoard events too.
        wandb: the name of a Weights & Biases project to log to as well.
        name: what to call the environment in the run directory and in reports, if its own name will not do.
        init_from: a run of the same method to take the policy, critics and observation scale from. Limits may differ.
        init_replay: start with that run's replay too.
        demonstrations: an npz file of steps that fills the replay before the first step (docs/deployment.md).
        on_epoch: called with each epoch's metrics once they are saved. If it returns "stop", the run ends.
        watch: serve the report's page of the run while it goes on, and open it in the browser if there is one.
    """
    entry = lookup(algorithm)
    env = as_source(env)
    steps, seed = check_numbers(steps, seed)
    settings = config if isinstance(config, LoopConfig) else make_config(algorithm, preset, config)
    if type(settings) is not entry.config:
        ours, theirs = (f"{kind.__module__}.{kind.__qualname__}" for kind in (entry.config, type(settings)))
        raise BadValue(f"{algorithm} takes {ours}, got {theirs}")
    check_name(env, settings)
    limits = resolve_limits(env, algorithm, cost_limit)
    make_environments = environment_maker(env, settings, limits, name)
    display = Display(steps, limits, quiet=quiet)
    with (
        TrainingInterrupts(display.message, display.leave) as interrupts,
        environments_for(settings, make_environments) as environments,
        environments.for_evaluation(partial(make_environments, settings.eval_episodes)) as evaluations,
    ):
        asked_envs, settings = settings.envs, dataclasses.replace(settings, envs=environments.count)
        path = Path(run_dir) if run_dir is not None else default_run_dir(environments.name, algorithm, seed)
        check_sinks(tensorboard, wandb is not None)
        threads = begun_with(path) if resume else None
        threads = compute.fix_threads(threads)
        compute.keep_compiled_programs(threads)
        spec = Spec(
            environments.obs_size,
            environments.action_size,
            environments.discrete,
            limits,
            environments.episode_length,
            environments.choices,
            environments.images,
        )
        epochs = epochs_of(steps, spec.episode_length * environments.count)
        built = build(algorithm, settings, spec)
        begun = resume and (path / CONFIG).exists()
        sources = Sources(init_from, init_replay, demonstrations).or_those_of(path if begun else None)
        if sources.init_from is not None and isinstance(settings, OffPolicyConfig):
            settings = dataclasses.replace(settings, random_epochs=0)  # it knows better already
        start = sources.read(path if begun else None, algorithm, built, settings, spec, environments)
        given = 0 if start.data is None else len(start.data.reward)
        learner = make_learner(built, settings, spec, epochs + given)
        description = {
            "env": environments.name,
            "source": environments.source,
            "environment": environments.identity,
            "algorithm": algorithm,
            "off_policy": settings.off_policy,
            "steps": steps,
            "seed": seed,
            "cost_limit": list(limits),
            "preset": preset or "default",
            "compute_threads": threads,
            **sources.described(),
            "changed": changed_settings(dataclasses.replace(settings, envs=asked_envs), make_config(algorithm, preset)),
            "config": dataclasses.asdict(settings),
            "spec": dataclasses.asdict(spec),
        }
        interrupts.check()
        with (
            open_run(path, description, resume, overwrite) as directory,
            keeping_errors(path),
            live_page(path, display.message) if watch else contextlib.nullcontext(),
        ):
            display.last_word = messages.resume_hint(path, environments.source, settings.envs_on_ray)
            if warning := messages.flattened_images(environments.observation):
                display.message(warning)
            loop = Loop(
                algorithm, learner, settings, spec, environments, evaluations, directory, seed, display, interrupts
            )
            with display:
                loop.run(steps, make_sinks(directory, tensorboard, wandb), start, on_epoch)
            for line in messages.summary(read_metrics(path)[-1], spec, path, environments.source):
                display.message(line)
    return Run(path)


# between a run and what resumes it
_MAY_DIFFER = ("steps", "preset", "compute_threads", "changed", "config", "spec", "envs_on_ray", *Sources._fields)


def changed_settings(settings: LoopConfig, preset: LoopConfig) -> dict[str, Any]:
    """The settings that are not the preset's, with the values that they have there."""
    here, there = dataclasses.asdict(settings), dataclasses.asdict(preset)
    return {name: there[name] for name in here if here[name] != there[name]}


_MOST_THREADS = 4096  # a run from anybody must not start as many as it likes


def check_numbers(steps: Any, seed: Any) -> tuple[int, int]:
    """Both as Python's integers; refuses what is none."""
    return whole_number("steps", steps, 1, LARGEST), whole_number("seed", seed, 0, LARGEST)


def check_name(env: EnvSource, settings: LoopConfig) -> None:
    """Refuse a name that no environment has. Another interpreter or machine knows others than this one."""
    if settings.python is None and settings.envs_on_ray is None:
        check_known(env)


def begun_with(path: Path) -> int | None:
    """The compute threads of the run in a directory; None if it has no run, or one that does not say."""
    if not (path / CONFIG).exists():
        return None
    threads = read_config(path).get("compute_threads")
    if threads is not None and not (type(threads) is int and 1 <= threads <= _MOST_THREADS):
        raise BadFile(f"'compute_threads' in {path / CONFIG} must be from 1 to {_MOST_THREADS}, got {threads!r}")
    return threads


@contextlib.contextmanager
def keeping_errors(path: Path) -> Iterator[None]:
    """Write what an error says of itself, with the line that it comes from, into the run directory too."""
    (path / ERROR).unlink(missing_ok=True)  # of an earlier process
    try:
        yield
    except Exception:
        with contextlib.suppress(OSError):  # a full disk may be the error
            write_text(path / ERROR, traceback.format_exc())
        raise


def live_page(path: Path, say: Callable[[str], None]) -> contextlib.AbstractContextManager[None]:
    from cvpo.report.opening import shown_live  # with matplotlib, for which nobody else should wait

    return shown_live(path, say)


def resolve_limits(env: EnvSource, algorithm: str, cost_limit: float | Sequence[float] | None) -> tuple[float, ...]:
    """The cost limits of a run, one for each constraint: as given, or the task's own, or none where none is needed."""
    if cost_limit is None:
        if task := find_task(env):
            return (float(task.cost_limit),)
        if not lookup(algorithm).constrained:
            return (math.inf,)
        raise BadValue(f"{algorithm} needs a cost_limit: the cost per episode that the policy must stay below")
    try:
        limits = tuple(float(limit) for limit in np.atleast_1d(np.asarray(cost_limit, float)))
    except (TypeError, ValueError):
        raise BadValue(f"cost_limit must be a number, or one for each constraint, got {cost_limit!r}") from None
    for limit in limits:
        if not limit >= 0:
            raise BadValue(f"cost_limit must be >= 0, got {limit}")
    if not limits:
        raise BadValue("cost_limit must name at least one limit, got none")
    return limits


def environment_maker(
    env: EnvSource, settings: LoopConfig, limits: tuple[float, ...], name: str | None = None
) -> Callable[[int], Environments]:
    return partial(
        Environments,
        env,
        num_costs=len(limits),
        cost_required=any(math.isfinite(limit) for limit in limits),
        cost_keys=settings.cost_keys,
        episode_length=settings.episode_length,
        processes=settings.processes,
        threads=settings.threads,
        python=settings.python,
        timeout=settings.env_timeout,
        name=name,
        ray=settings.envs_on_ray,
    )


def environments_for(settings: LoopConfig, make: Callable[[int], Environments]) -> Environments:
    """As many environments as `settings` ask for. A vector environment decides that itself."""
    if settings.envs is not None:
        return make(settings.envs)
    first = make(1)  # to see how long its episodes are
    count = settings.env_count(first.episode_length)
    if first.count > 1 or count == 1:
        return first
    first.close()
    return make(count)


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
            if name not in _MAY_DIFFER and theirs.get(name) != value
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
