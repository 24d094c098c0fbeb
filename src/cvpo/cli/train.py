"""`cvpo train`: its flags depend on the algorithm, and their defaults on the preset and a file."""

import contextlib
import dataclasses
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from cvpo.cli.options import CostLimit, Switch, optional
from cvpo.cli.resume import resume
from cvpo.cli.whole_numbers import WHOLE_NUMBERS

# Of a dataclass whose name is no part of its flags: --batch-size, not --settings.batch-size.
UNNAMED: Any = tyro.conf.arg(name="")


@dataclass(frozen=True)
class Options:
    """What to train, for how long, and where the run is written."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """A built-in task (see `cvpo tasks`) or a Gymnasium id; module:id imports the module that registers the id."""
    steps: int
    """Environment steps in total, rounded up to whole epochs; 200000, 2e5 and 200k are the same."""
    algorithm: str = "cvpo"
    """The method. `cvpo algorithms` lists them; each has its own settings."""
    cost_limit: CostLimit = ()
    """Limit on the cost of an episode, one number for each constraint."""
    seed: int = 0
    """Seed of everything random."""
    preset: str = "default"
    """Named settings to start from. `cvpo algorithms` lists them."""
    config_file: Annotated[Path | None, optional("PATH")] = None
    """A JSON or TOML file of settings, or the config.json of a run. It overrides the preset; flags override both."""
    run_dir: Annotated[Path | None, optional("PATH", "runs/TASK/ALGORITHM/seed-N")] = None
    """Where the run is written."""
    name: Annotated[str | None, optional("NAME", "its own")] = None
    """What to call the environment in the run directory and in reports."""
    overwrite: Switch = False
    """Delete the run that is already in that directory."""
    init_from: Annotated[Path | None, optional("RUN")] = None
    """Start with the policy, critics and observation scale of another run of the same method. Limits may differ."""
    init_replay: Switch = False
    """Start with the replay of that run too."""
    demonstrations: Annotated[Path | None, optional("PATH")] = None
    """Fill the replay with the steps of this npz file before the first step; `cvpo record` writes such files."""


@dataclass(frozen=True)
class Logging:
    quiet: Switch = False
    """Print nothing."""
    tensorboard: Switch = False
    """Write TensorBoard events too (extra: tensorboard)."""
    wandb: Annotated[str | None, optional("PROJECT")] = None
    """Log to this Weights & Biases project too (extra: wandb)."""
    watch: Switch = False
    """Show the report's page of this run while it goes on: in the browser, or at the address that is printed."""


def train() -> None:
    """Train a policy, or resume a run that was stopped."""


def train_command(arguments: Sequence[str]) -> Callable[..., None]:
    """The `train` that these arguments ask for: to resume a run, or with the settings of an algorithm as flags."""
    if any(argument.partition("=")[0] == "--resume" for argument in arguments):
        return resume
    from cvpo.cli.config_file import read_settings
    from cvpo.cli.setting_flags import flags, settings_of
    from cvpo.presets import make_config

    first = _look(Options, Options("", 0), arguments)
    name, preset = first.algorithm, first.preset
    from_file = read_settings(first.config_file, name) if first.config_file else None

    all_arguments = _all_arguments(flags(make_config(name, preset, from_file)))

    def command(given: Any) -> None:
        """Train a policy. Every setting of the algorithm is a flag.

        The defaults shown are those of the algorithm and the preset that are named beside --help.

        To resume a run that was stopped: cvpo train --resume RUN
        """
        from cvpo.training.train import train

        options, logging = given.options, given.logging
        train(
            options.env,
            name,
            steps=options.steps,
            seed=options.seed,
            cost_limit=options.cost_limit or None,
            run_dir=options.run_dir,
            overwrite=options.overwrite,
            name=options.name,
            preset=preset,
            config=make_config(name, overrides=settings_of(given.settings)),
            quiet=logging.quiet,
            tensorboard=logging.tensorboard,
            wandb=logging.wandb,
            watch=logging.watch,
            init_from=options.init_from,
            init_replay=options.init_replay,
            demonstrations=options.demonstrations,
        )

    command.__annotations__["given"] = Annotated[all_arguments, UNNAMED]
    return command


def _all_arguments(settings: Any) -> Any:
    """A dataclass of all that can be given, with `settings` as defaults."""
    fields: list[Any] = [
        ("options", Annotated[Options, UNNAMED]),
        ("settings", Annotated[type(settings), UNNAMED], dataclasses.field(default=settings)),
        ("logging", Annotated[Logging, tyro.conf.OmitArgPrefixes], dataclasses.field(default=Logging())),
    ]
    return dataclasses.make_dataclass("Train", fields, frozen=True)


def _look(kind: Any, defaults: Any, arguments: Sequence[str]) -> Any:
    """A first look at some of the arguments, before all flags are known. It says nothing of mistakes: the command
    itself finds them again, and has the whole help to point to."""
    with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
        return tyro.cli(
            kind, default=defaults, args=arguments, return_unknown_args=True, add_help=False, registry=WHOLE_NUMBERS
        )[0]
    return defaults
