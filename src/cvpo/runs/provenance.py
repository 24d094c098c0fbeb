"""What a run's results may depend on beyond its settings: versions, machine, revision."""

from __future__ import annotations

import datetime
import importlib.metadata
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
    """The revision of the repository that the current directory is in, and whether tracked files differ from it."""
    try:
        revision = _git("rev-parse", "HEAD").strip()
        return {"revision": revision, "dirty": bool(_git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, timeout=10).stdout
