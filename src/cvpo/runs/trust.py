"""Code that a file asks to run. A run directory may come from anybody, so what it names is not imported unasked."""

from __future__ import annotations

import sys
from pathlib import Path

from cvpo.errors import UserError


class UntrustedCode(UserError, RuntimeError):
    """A file names a module, and nobody who runs this program has said that it may be imported."""


REMOTE = "remote:"  # begins the text of an environment that another interpreter runs


def module_of(source: str) -> str:
    """The module that making an environment of this name imports, or "". A description in JSON imports none."""
    return "" if source.startswith("{") else source.rpartition(":")[0]


def _names_interpreter(source: str) -> bool:
    """Whether the environment runs in an interpreter that its own text names."""
    return source.startswith(REMOTE)


def trust_flag(source: str) -> str:
    """What a command must say to make this environment again, with a space before it; nothing if it imports nothing."""
    return " --trust" if module_of(source) or _names_interpreter(source) else ""


def require_trust(source: str, found_in: str | Path, trust: bool, python: str | None = None) -> str:
    """`source`, the name of an environment that was read from a file, if making it imports nothing new.

    A task or a registered id imports nothing. "module:id" imports the module: that needs `trust`, or a caller who has
    imported it already. An interpreter that the file names, `python`, needs `trust` in any case.
    """
    if (python is not None or _names_interpreter(source)) and not trust:
        raise UntrustedCode(
            f"{found_in} was trained with an environment in another interpreter, {python or source}, which would be "
            "started. If you trust it, say --trust; evaluate, render, inspect and record also take --env "
            "(in Python: trust=True)"
        )
    module = module_of(source)
    if module and not trust and module not in sys.modules:
        raise UntrustedCode(
            f"{found_in} was trained on {source!r}, which is code: the module {module!r} of this computer would be "
            f"imported. If you trust it, say --trust; evaluate, render, inspect and record also take --env {source} "
            "(in Python: trust=True)"
        )
    return source


def require_trusted_cluster(address: str | None, found_in: str | Path, trust: bool) -> None:
    """Refuse to connect to a Ray cluster that a file names: what it answers may run any code."""
    if address is not None and not trust:
        raise UntrustedCode(
            f"{found_in} was trained with its environments on the Ray cluster at {address}. If you trust it, "
            "say --trust, or name the cluster with --envs-on-ray"
        )
