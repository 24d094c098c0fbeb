"""`--config-file`: settings from a file."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from cvpo.errors import BadValue


def read_settings(path: Path, algorithm: str) -> dict[str, Any]:
    """The settings in a JSON or TOML file. The config.json of a run is one too: its settings are used again."""
    if path.suffix not in (".json", ".toml"):
        raise BadValue(f"a config file must end in .json or .toml, got {path}")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadValue(f"the config file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadValue(f"the config file {path} is not text; it must be {path.suffix[1:].upper()}") from None
    try:
        settings = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise BadValue(f"the config file {path} is not {path.suffix[1:].upper()}: {error}") from None
    if not isinstance(settings, dict):
        found = {list: "a list", type(None): "null"}.get(type(settings), repr(settings))
        raise BadValue(
            f'the config file {path} must hold names and values, such as {{"gamma": 0.99}}; it holds {found}'
        )
    return _of_a_run(settings, path, algorithm) if isinstance(settings.get("config"), dict) else settings


def _of_a_run(description: dict[str, Any], path: Path, algorithm: str) -> dict[str, Any]:
    theirs = description.get("algorithm", algorithm)
    if theirs != algorithm:
        raise BadValue(f"{path} holds settings of {theirs}, not of {algorithm}; add --algorithm {theirs}")
    return description["config"]
