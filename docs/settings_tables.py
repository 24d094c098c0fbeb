"""A hook of the site: the tables of docs/reference/settings.md, made from the configs and the help of the flags."""

from __future__ import annotations

import dataclasses
from typing import Any

from cvpo.algorithms.config import grouped_fields
from cvpo.algorithms.registry import ALGORITHMS
from cvpo.cli.setting_flags import help_texts


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if page.file.src_uri != "reference/settings.md":
        return markdown
    return "\n\n".join([markdown, *map(_section, ALGORITHMS)])


def _section(name: str) -> str:
    config = ALGORITHMS[name].config
    texts = help_texts(config)
    summary = ALGORITHMS[name].summary
    lines = [f"## {name}", f"{summary[0].upper()}{summary[1:]}."]
    for group, fields in grouped_fields(config).items():
        rows = [f"| `{field.name}` | {_default(field)} | {texts[field.name].replace('|', '∣')} |" for field in fields]
        lines.append("\n".join([f"| {group} | default | |", "| --- | --- | --- |", *rows]))
    return "\n\n".join(lines)


def _default(field: dataclasses.Field) -> str:
    return "" if field.default in (None, ()) else f"`{field.default}`"
