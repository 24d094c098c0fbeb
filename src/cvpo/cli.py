"""The `cvpo` command: one function for each subcommand, which parses its own arguments."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from cvpo.errors import did_you_mean


@dataclass(frozen=True)
class TrainOptions:
    """Train a policy. Every setting of the algorithm is a flag; --algorithm NAME --help shows those of another one.

    To go on with a run that was stopped: cvpo train --resume RUN [--steps N]
    """

    env: tyro.conf.Positional[str]
    """A task (see `cvpo tasks`) or a Gymnasium id; module:id imports the module that registers the id."""
    steps: int
    """Environment steps in all, rounded up to whole epochs."""
    algorithm: str = "cvpo"
    """The method; `cvpo algorithms` lists them."""
    seed: int = 0
    """Everything random follows from it."""
    cost_limit: tuple[float, ...] = ()
    """Cost per episode to stay below, one number for each constraint; a built-in task has its own."""
    run_dir: Path | None = None
    """Where the run is written; runs/ENV/ALGORITHM/seed-N if not given."""
    overwrite: bool = False
    """Delete a run that is in the directory already."""
    preset: str = "default"
    """Named settings to start from."""
    config_file: Path | None = None
    """A JSON or TOML file of settings over the preset's; flags go over both."""
    quiet: bool = False
    """Print nothing."""
    tensorboard: bool = False
    """Write TensorBoard events too (extra: tensorboard)."""
    wandb: str | None = None
    """Log to this Weights & Biases project too (extra: wandb)."""


def train(arguments: Sequence[str]) -> None:
    """Train a policy, or go on with a run."""
    from cvpo.algorithms.registry import lookup
    from cvpo.presets import make_config
    from cvpo.tasks.table import find_task
    from cvpo.training import train as training

    if _flag(arguments, "--resume"):
        return resume(arguments)
    # The algorithm decides which settings there are, and preset, task and file their defaults: they are read first.
    name = _flag(arguments, "--algorithm") or "cvpo"
    file = _flag(arguments, "--config-file")
    settings = read_settings(Path(file)) if file else None
    free = [value for value, flag in zip(arguments, ("", *arguments), strict=False) if not _takes_a_name(flag)]
    task = next((argument for argument in free if find_task(argument)), None)
    defaults = make_config(name, _flag(arguments, "--preset"), settings, task)
    unprefixed: Any = tyro.conf.arg(name="")  # --batch-size, not --config.batch-size
    fields: list[Any] = [("config", Annotated[lookup(name).config, unprefixed], dataclasses.field(default=defaults))]
    everything = dataclasses.make_dataclass("Train", fields, bases=(TrainOptions,), frozen=True)
    everything.__doc__ = TrainOptions.__doc__
    options = dict(vars(tyro.cli(everything, prog="cvpo train", args=arguments)))
    del options["config_file"]
    options["cost_limit"] = options["cost_limit"] or None
    training.train(options.pop("env"), options.pop("algorithm"), **options)


def resume(arguments: Sequence[str]) -> None:
    """Go on with a run from its newest checkpoint, with the settings it was started with."""
    from cvpo.presets import make_config
    from cvpo.runs.directory import read_config
    from cvpo.runs.trust import require_trust
    from cvpo.training import train as training

    def parse(
        resume: Path,
        steps: int | None = None,
        quiet: bool = False,
        tensorboard: bool = False,
        wandb: str | None = None,
        trust: bool = False,
    ) -> dict[str, Any]:
        """Go on with a run.

        Args:
            resume: The run directory.
            steps: Environment steps in all, if other than the run was started for.
            quiet: Print nothing.
            tensorboard: Write TensorBoard events too.
            wandb: Log to this Weights & Biases project too.
            trust: Import the module that the run's environment needs.
        """
        return {
            "path": resume, "steps": steps, "quiet": quiet, "tensorboard": tensorboard, "wandb": wandb, "trust": trust
        }  # fmt: skip

    options = tyro.cli(parse, prog="cvpo train", args=arguments)
    path = options.pop("path")
    saved = read_config(path)
    source = saved["source"]
    if source is None:
        raise ValueError(
            f"{path} was trained on an environment that a callable made, {saved['env']}; go on with it from Python: "
            f"cvpo.train(THE_CALLABLE, ..., run_dir={str(path)!r}, resume=True)"
        )
    training.train(
        require_trust(source, path, options.pop("trust")),
        saved["algorithm"],
        seed=saved["seed"],
        cost_limit=saved["cost_limit"],
        preset=saved["preset"],
        config=make_config(saved["algorithm"], overrides=saved["config"]),
        run_dir=path,
        resume=True,
        **options | {"steps": options["steps"] or saved["steps"]},
    )


def evaluate(arguments: Sequence[str]) -> None:
    """Measure a trained policy."""

    def command(
        run: tyro.conf.Positional[Path],
        env: str | None = None,
        episodes: int = 20,
        seed: int = 0,
        trust: bool = False,
    ) -> None:
        """Run the deterministic policy of a run and print its rewards and costs as JSON.

        Args:
            run: A run directory.
            env: A task or Gymnasium id, if other than it was trained on.
            episodes: Episodes to run.
            seed: Seed of the environments.
            trust: Import the module that the run's environment needs.
        """
        from cvpo.policies.evaluate import evaluate
        from cvpo.runs.strict_json import to_json

        print(to_json(evaluate(run, env, episodes, seed, trust=trust), indent=2))

    tyro.cli(command, prog="cvpo evaluate", args=arguments)


def render(arguments: Sequence[str]) -> None:
    """Film a trained policy."""

    def command(
        run: tyro.conf.Positional[Path],
        output: Path | None = None,
        env: str | None = None,
        episodes: int = 1,
        seed: int = 0,
        fps: int = 30,
        view: Literal["top", "3d"] | None = None,
        trust: bool = False,
    ) -> None:
        """Write a film of the deterministic policy of a run.

        Args:
            run: A run directory.
            output: An mp4 (extra: video, else a gif) or gif file; RUN/videos/episode.mp4 if not given.
            env: A task or Gymnasium id, if other than it was trained on.
            episodes: Episodes to film, one after the other.
            seed: Seed of the environment.
            fps: Frames per second.
            view: How a built-in task is seen: from above, or in MuJoCo's 3D picture (needs GL).
            trust: Import the module that the run's environment needs.
        """
        from cvpo.policies.render import render

        print(render(run, output, env, episodes, seed, fps, view, trust=trust))

    tyro.cli(command, prog="cvpo render", args=arguments)


def sweep(arguments: Sequence[str]) -> None:
    """Train every combination of tasks, algorithms, settings and seeds."""

    def command(
        tasks: tuple[str, ...],
        steps: int,
        algorithms: tuple[str, ...] = ("cvpo",),
        seeds: tuple[int, ...] = (1,),
        set: tuple[str, ...] = (),
        preset: str = "default",
        cost_limit: tuple[float, ...] = (),
        output: Path = Path("runs"),
        workers: int | None = None,
        cores: int = 1,
        ray: str | None = None,
        retries: int = 3,
        discard_checkpoints: bool = False,
    ) -> None:
        """Train a grid of runs in OUTPUT/TASK/ALGORITHM+SETTINGS/seed-N. The same command goes on after a stop.

        Args:
            tasks: Tasks or Gymnasium ids; module:id imports the module that registers the id.
            steps: Environment steps of each run.
            algorithms: The methods; `cvpo algorithms` lists them.
            seeds: How many seeds, counted from 0; or, if more than one number is given, the seeds themselves.
            set: Settings and the values that they take: particles=16,32 hidden=[64],[64,64]
            preset: Named settings to start from.
            cost_limit: Cost per episode to stay below, one number for each constraint; a built-in task has its own.
            output: Where the runs are written.
            workers: Runs at once; by default as many as the cores suffice for.
            cores: Cores for each run.
            ray: Train on a Ray cluster (extra: ray): auto, HOST:PORT, or local to start one here.
            retries: How often a run goes on after its process died.
            discard_checkpoints: Delete the checkpoints of a run, most of its size, once it is done.
        """
        from cvpo.experiments import grid, sweep
        from cvpo.experiments.spec import parse_settings

        numbers = range(seeds[0]) if len(seeds) == 1 else seeds
        limits = cost_limit or None
        specs = grid(tasks, algorithms, numbers, steps, settings=parse_settings(set), preset=preset, cost_limit=limits)
        ended = sweep(
            specs,
            output,
            workers=workers,
            cores=cores,
            ray=ray,
            retries=retries,
            discard_checkpoints=discard_checkpoints,
        )
        sys.exit(any(status.state == "failed" for status in ended))

    tyro.cli(command, prog="cvpo sweep", args=arguments)


def reproduce(arguments: Sequence[str]) -> None:
    """Run the paper's experiments, or a part of them, and draw its figures."""

    def command(
        scale: Literal["quick", "paper"] = "quick",
        tasks: tuple[str, ...] = (),
        algorithms: tuple[str, ...] = (),
        seeds: int | None = None,
        preset: str | None = None,
        output: Path = Path("reproduction"),
        workers: int | None = None,
        ray: str | None = None,
        dry_run: bool = False,
    ) -> None:
        """Train the paper's grid into OUTPUT/runs and report on it in OUTPUT/report. Goes on after a stop.

        Args:
            scale: The paper's seeds and steps, or few enough of both for one night of a laptop.
            tasks: Some of the five tasks only.
            algorithms: Some of the methods only; cvpo-no-kl is the ablation of the M-step's KL constraint.
            seeds: How many seeds, if other than the scale's.
            preset: Named settings, if other than the scale's: those of the paper for paper, the defaults for quick.
            output: Where runs and report are written.
            workers: Runs at once; by default one for each core.
            ray: Train on a Ray cluster (extra: ray): auto, HOST:PORT, or local to start one here.
            dry_run: Only say what would be run, and how long it takes.
        """
        from cvpo.experiments.reproduce import reproduce

        ended = reproduce(
            scale, tasks, algorithms, seeds, preset, output=output, workers=workers, ray=ray, dry_run=dry_run
        )
        sys.exit(any(status.state == "failed" for status in ended))

    tyro.cli(command, prog="cvpo reproduce", args=arguments)


def report(arguments: Sequence[str]) -> None:
    """Draw the figures of runs and write them into one page."""

    def command(runs: tyro.conf.Positional[tuple[Path, ...]], output: Path = Path("report")) -> None:
        """Write index.html, the figures and the tables of all runs below the given directories.

        Args:
            runs: Run directories, or directories of them.
            output: Where the report is written.
        """
        from cvpo.report import write_report

        print(write_report(list(runs), output))

    tyro.cli(command, prog="cvpo report", args=arguments)


def tasks(arguments: Sequence[str]) -> None:
    """List the built-in tasks."""

    def command() -> None:
        """List the built-in tasks with their sizes and limits."""
        from cvpo.tasks import TASKS

        print(f"{'task':<14}{'id':<22}{'obs':>5}{'act':>5}{'steps':>7}{'limit':>7}")
        for t in TASKS.values():
            sizes = f"{t.observation_size:>5}{t.action_size:>5}{t.episode_length:>7}{t.cost_limit:>7g}"
            print(f"{t.name:<14}{t.id:<22}{sizes}\n    {t.description}")

    tyro.cli(command, prog="cvpo tasks", args=arguments)


def algorithms(arguments: Sequence[str]) -> None:
    """List the algorithms."""

    def command() -> None:
        """List the algorithms and their presets."""
        from cvpo.algorithms.registry import ALGORITHMS
        from cvpo.presets import PRESETS

        for name, entry in ALGORITHMS.items():
            print(f"{name:<10} {entry.summary} (presets: {', '.join(PRESETS[name])})")

    tyro.cli(command, prog="cvpo algorithms", args=arguments)


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "train": train,
    "evaluate": evaluate,
    "render": render,
    "sweep": sweep,
    "reproduce": reproduce,
    "report": report,
    "tasks": tasks,
    "algorithms": algorithms,
}


def main(arguments: Sequence[str] | None = None) -> None:
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: cvpo COMMAND [OPTIONS]; cvpo COMMAND --help says more\n")
        for name, command in COMMANDS.items():
            print(f"  {name:<12}{command.__doc__}")
        return
    name, *rest = arguments
    if name not in COMMANDS:
        sys.exit(f"cvpo: no command {name!r}{did_you_mean(name, COMMANDS)}")
    # A module that the user names is found where the command is called, as `python -m cvpo` finds it; at the end of the
    # path, where it hides nothing. Without such a name nothing is ever imported from the current directory: it may be
    # somebody else's.
    named = any(":" in argument for argument in rest) or "--trust" in rest
    if named and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        COMMANDS[name](rest)
    except KeyboardInterrupt:
        sys.exit(130)
    except (ValueError, TypeError, RuntimeError, OSError, ImportError) as error:
        # What a user can mend is raised as one of these with a message that says how.
        sys.exit(f"cvpo {name}: {error}")


def read_settings(path: Path) -> dict[str, Any]:
    """Settings from a JSON or TOML file."""
    text = path.read_text()
    if path.suffix not in (".json", ".toml"):
        raise ValueError(f"a config file is .json or .toml, got {path}")
    try:
        return json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} is not {path.suffix[1:].upper()}: {error}") from None


def _takes_a_name(flag: str) -> bool:
    """Whether what follows a flag may read like a task's name without being the task."""
    return flag.replace("_", "-") in ("--run-dir", "--wandb", "--config-file", "--cost-keys")


def _flag(arguments: Sequence[str], name: str) -> str | None:
    """The value of a flag, written as `--flag value` or `--flag=value`, its words joined by - or _."""
    for i, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag.replace("_", "-") == name:
            return value if equals else next(iter(arguments[i + 1 :]), None)
    return None
