"""`--config-file`: settings from a file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from cvpo.errors import BadValue
from cvpo.runs.strict_json import parse_json


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
    # a run's own file has "Infinity" for what JSON lacks, which its reader knows
    settings = parse_json(text, f"the config file {path}") if path.suffix == ".json" else _parse_toml(text, path)
    if not isinstance(settings, dict):
        found = {list: "a list", type(None): "null"}.get(type(settings), repr(settings))
        raise BadValue(
            f'the config file {path} must hold names and values, such as {{"gamma": 0.99}}; it holds {found}'
        )
    return _of_a_run(settings, path, algorithm) if isinstance(settings.get("config"), dict) else settings


def _parse_toml(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise BadValue(f"the config file {path} is not TOML: {error}") from None


def _of_a_run(description: dict[str, Any], path: Path, algorithm: str) -> dict[str, Any]:
    theirs = description.get("algorithm", algorithm)
    if theirs != algorithm:
        raise BadValue(f"{path} holds settings of {theirs}, not of {algorithm}; add --algorithm {theirs}")
    return description["config"]
