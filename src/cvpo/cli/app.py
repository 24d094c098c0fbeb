"""The command as a whole: its subcommands, and what becomes of errors.

A subcommand is a function: its parameters are the arguments and its docstring the help. Its file imports what is slow
to load (JAX above all) inside the function, so that help and lists appear at once. A new one is a file in this folder
and a line in COMMANDS.

Exit status: 0 when all went well, 1 when the command could not do what was asked for, 2 when it did not understand its
arguments, 3 when `evaluate --require-safe` did not find the policy safe, 130 after Ctrl-C.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tyro

import cvpo
from cvpo.cli.evaluate import evaluate
from cvpo.cli.export import export
from cvpo.cli.inspect import inspect
from cvpo.cli.lists import algorithms, tasks
from cvpo.cli.record import record
from cvpo.cli.render import render
from cvpo.cli.report import report
from cvpo.cli.reproduce import reproduce
from cvpo.cli.sweep import sweep
from cvpo.cli.train import train, train_command
from cvpo.cli.whole_numbers import WHOLE_NUMBERS
from cvpo.errors import UserError
from cvpo.training.interrupts import TrainingInterrupts

COMMANDS: dict[str, Callable[..., None]] = {
    "train": train,
    "evaluate": evaluate,
    "inspect": inspect,
    "render": render,
    "record": record,
    "export": export,
    "sweep": sweep,
    "reproduce": reproduce,
    "report": report,
    "tasks": tasks,
    "algorithms": algorithms,
}

_DESCRIPTION = """Train and study policies that maximise reward while the cost stays under a limit.

cvpo COMMAND --help explains a command. cvpo --version prints the version."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command with these arguments, by default those of the process."""
    arguments = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if arguments == ["--version"]:
        print(f"cvpo {cvpo.__version__}")
        return
    # A module that the user names is found where the command is called, as `python -m cvpo` finds it; at the end of the
    # path, where it hides nothing. Without such a name nothing is ever imported from the current directory: it may be
    # somebody else's.
    named = any(":" in argument for argument in arguments) or "--trust" in arguments
    if named and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        # A Ctrl-C while JAX is imported is not lost, and is answered at once as any later one.
        with TrainingInterrupts(to_the_end=True) if arguments[0] == "train" else contextlib.nullcontext():
            parse(arguments)()
    except KeyboardInterrupt:
        sys.exit(130)
    except UserError as error:
        # What a user can fix. Anything else is a bug, here or in the user's own code, and keeps its traceback.
        print(f"cvpo {arguments[0]}: {error}", file=sys.stderr)
        sys.exit(1)


def parse(arguments: Sequence[str]) -> Callable[[], None]:
    """The subcommand that the arguments ask for, ready to be called."""
    commands = dict(COMMANDS)
    if arguments[0] == "train":
        commands["train"] = train_command(arguments[1:])
    return tyro.extras.subcommand_cli_from_dict(
        {name: _called_later(command) for name, command in commands.items()},
        prog="cvpo",
        description=_DESCRIPTION,
        # Help is shown wherever it is asked for: `cvpo train --resume --help` lacks a value that nobody needs.
        args=[arguments[0], "--help"] if {"-h", "--help"} & set(arguments) else arguments,
        registry=WHOLE_NUMBERS,
    )


def _called_later(command: Callable[..., None]) -> Callable[..., Callable[[], None]]:
    """A command of the same arguments that only remembers them: parsing is over before any work begins."""

    @functools.wraps(command)
    def remember(*arguments: Any, **options: Any) -> Callable[[], None]:
        return functools.partial(command, *arguments, **options)

    return remember
