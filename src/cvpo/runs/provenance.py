"""What a run's results may depend on beyond its settings: versions, machine, revision."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
import uuid
from typing import Any

_PACKAGES = ("cvpo", "jax", "jaxlib", "numpy", "optax", "mujoco", "gymnasium")


def provenance() -> dict[str, Any]:
    """What a run's results may depend on beyond its settings."""
    return {
        "id": uuid.uuid4().hex[:12],
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "platform": platform.platform(),
        "git": _git_revision(),
    }


def versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def _git_revision() -> dict[str, Any] | None:
    """The revision of the repository that the current directory is in, and whether tracked files differ from it.

    The repository may be anybody's, and nothing that it brings may run. What differs is None (unknown) where git would
    ask commands of the repository's own to find out.
    """
    try:
        revision = _git("rev-parse", "HEAD").strip()
        dirty = None if _has_filters() else bool(_git("status", "--porcelain", *_TRACKED_FILES_HERE))
        return {"revision": revision, "dirty": dirty}
    except (OSError, subprocess.SubprocessError):
        return None


_TRACKED_FILES_HERE = ("--untracked-files=no", "--ignore-submodules=all")
_NO_COMMANDS = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_NO_FETCHING = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_TERMINAL_PROMPT": "0"}


def _has_filters() -> bool:
    """Whether the repository itself, not the user's own configuration, has commands for the content of files."""
    settings = _git("config", "--show-scope", "--name-only", "--list").splitlines()
    scopes = (line.split("\t", 1) for line in settings)
    return any(scope in ("local", "worktree") and name.startswith("filter.") for scope, name in scopes)


def _git(*arguments: str) -> str:
    command = ["git", *_NO_COMMANDS, *arguments]
    environment = os.environ | _NO_FETCHING
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=True, timeout=10, env=environment
    ).stdout
