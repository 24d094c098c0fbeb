"""Kinds of arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

Switch = tyro.conf.FlagCreatePairsOff[bool]  # --quiet, without a --no-quiet


def optional(metavar: str, default: str = "none") -> Any:
    """Of an argument that may be left out: what the help says instead of {None}|STR and (default: None)."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {default})")


RunPath = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
OtherEnv = Annotated[str | None, optional("TASK", "what it was trained on")]
# of commands that read a run, which may be somebody else's
Trust = Annotated[Switch, tyro.conf.arg(help="Allow the Python module or interpreter that the environment needs.")]
CostLimit = Annotated[tuple[float, ...], optional("FLOAT [FLOAT ...]", "the task's own")]
RayAddress = Annotated[str | None, optional("ADDRESS")]
WhichPolicy = Literal["newest", "best"]
