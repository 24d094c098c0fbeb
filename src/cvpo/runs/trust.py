"""Code that a file asks to run. A run directory may come from anybody, so what it names is not run unasked."""

from __future__ import annotations

import sys
from pathlib import Path

from cvpo.errors import UserError


class UntrustedCode(UserError, RuntimeError):
    """A file names code to run, and nobody who runs this program has said that it may."""


def trust_flag(source: str) -> str:
    """What a command must say to make this environment again, with a space before it; nothing if it runs no code."""
    return " --trust" if _code(source) else ""


def require_trust(source: str, found_in: str | Path, trust: bool, python: str | None = None) -> str:
    """`source`, the name of an environment that was read from a file, if making it runs nothing that the file names.

    A task or a registered id runs nothing of the file's. "module:id" imports the module, and an environment of another
    interpreter (`python`) starts that: both need `trust`, or a caller who has imported the module already.
    """
    code = f"the interpreter {python} would be started" if python is not None else _code(source)
    imported = python is None and source.rpartition(":")[0] in sys.modules
    if code and not trust and not imported:
        raise UntrustedCode(
            f"{found_in} was trained on {source!r}, which is code: {code}. If you trust it, say --trust, or name it "
            "with --env (in Python: trust=True, or env)"
        )
    return source


def _code(source: str) -> str:
    """What making the environment would run, in words."""
    if source.lstrip().startswith("{"):
        return "an interpreter that it names would be started" if '"remote"' in source else ""
    module = source.rpartition(":")[0]
    return f"the module {module!r} of this computer would be imported" if module else ""
