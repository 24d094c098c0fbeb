"""The page: one HTML file that holds all it shows, and draws a run's own curves when it is opened."""

from __future__ import annotations

import base64
import html
import json
import math
import os
import stat
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from cvpo.report.load import RunRecord, Unread
from cvpo.report.study import Study, final_cost, final_reward
from cvpo.report.style import Look, looks, short_number
from cvpo.report.table import COLUMNS, Column, Row, cell
from cvpo.runs.directory import VIDEOS

FILM_BYTES = 4_000_000
"""A larger film is linked, not embedded, so that the page opens at once."""
_FILM_TYPES = {".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif"}


class Picture(NamedTuple):
    name: str
    title: str
    caption: str
    svg: bytes


def make_page(
    study: Study, rows: Sequence[Row], pictures: Sequence[Picture], unread: Sequence[Unread], output: Path
) -> str:
    """The page's HTML. `output` is the directory it will be in: links to large films start there."""
    template = Template(_resource("page.html"))
    sections = [("summary", "Summary"), *((picture.name, picture.title) for picture in pictures), ("runs", "Runs")]
    root = Path(os.path.commonpath([run.path.parent for run in study.runs]))
    colors = looks(study.methods)
    return template.substitute(
        title="Constrained reinforcement learning: report",
        style=_resource("page.css"),
        script=_resource("page.js"),
        overview=_overview(study),
        navigation=" ".join(f'<a href="#{name}">{_text(title)}</a>' for name, title in sections),
        heads="".join(_head(title, meaning) for title, meaning in _headings()),
        rows="\n".join(_row(row, colors[row.method]) for row in rows),
        figures="\n".join(_figure(picture) for picture in pictures),
        runs="\n".join(_run(study, i, colors, root) for i in _run_order(study)),
        unread=_equal_seeds(study, root) + _unread(unread),
        # "<" could end the script element
        data=json.dumps([_run_data(run, output) for run in study.runs], allow_nan=False).replace("<", "\\u003c"),
    )


def _overview(study: Study) -> str:
    unfinished = sum(not run.finished for run in study.runs)
    parts = [_plural(len(study.runs), "run"), _plural(len(study.methods), "method"), _plural(len(study.tasks), "task")]
    if unfinished:
        parts.append(f"{unfinished} unfinished")
    return " · ".join(parts)


def _headings() -> list[tuple[str, str]]:
    return [
        ("Task", "environment, with its limit if there are several"),
        ("Method", "algorithm, with the settings in which its runs differ"),
        *((column.title, column.meaning) for column in COLUMNS),
    ]


def _head(title: str, meaning: str) -> str:
    return f'<th scope="col" title="{_text(meaning)}"><button type="button">{_text(title)}</button></th>'


def _row(row: Row, look: Look) -> str:
    swatch = f'<span class="swatch" style="background:{look.color}"></span>'
    cells = "".join(_cell(column, row.values) for column in COLUMNS)
    return f"<tr><td>{_text(row.task)}</td><td>{swatch}{_text(row.method)}</td>{cells}</tr>"


def _cell(column: Column, values: dict[str, float]) -> str:
    value = values[column.key]
    over = column.key in ("cost", "cost_q3", "eval_cost", "eval_cost_q3") and value > values["limit"]
    number = "Infinity" if value == math.inf else "NaN" if math.isnan(value) else repr(float(value))
    return f'<td data-value="{number}"{" class=over" if over else ""}>{_text(cell(column, values))}</td>'


def _figure(picture: Picture) -> str:
    return (
        f'<section id="{picture.name}"><h2>{_text(picture.title)}</h2>'
        f'<figure><img alt="{_text(picture.title)}" src="{_data_uri("image/svg+xml", picture.svg)}"></figure>'
        f'<p class="caption">{_text(picture.caption)}</p></section>'
    )


def _run_order(study: Study) -> list[int]:
    def place(i: int) -> tuple[Any, ...]:
        method = study.methods.index(study.run_methods[i])
        return study.run_tasks[i], method, study.runs[i].seed, study.runs[i].path

    return sorted(range(len(study.runs)), key=place)


def _run(study: Study, i: int, colors: dict[str, Look], root: Path) -> str:
    run, task, method = study.runs[i], study.run_tasks[i], study.run_methods[i]
    costs = ", ".join(f"{final_cost(run, c):.3g} (limit {limit:g})" for c, limit in enumerate(run.limits))
    steps = short_number(run.steps[-1])
    if not run.finished:
        steps += f" of {short_number(run.planned_steps)}"
    facts = f"reward {final_reward(run):.3g} · cost {costs} · {steps} steps · {run.path.relative_to(root)}"
    swatch = f'<span class="swatch" style="background:{colors[method].color}"></span>'
    return (
        f'<details class="run" data-run="{i}"><summary>{swatch}{_text(task)} · {_text(method)} · seed {run.seed}'
        f"<small>{_text(facts)}</small></summary></details>"
    )


def _run_data(run: RunRecord, output: Path) -> dict[str, Any]:
    return {
        "steps": _numbers(run.steps),
        "reward": _numbers(run.reward),
        "costs": [_numbers(cost) for cost in run.costs],
        "eval_reward": _numbers(run.eval_reward),
        "eval_costs": [_numbers(cost) for cost in run.eval_costs],
        "limits": _numbers(np.array(run.limits)),
        "films": [_film(path, output) for path in _films(run)],
        "settings": _plain(run.settings),
    }


def _films(run: RunRecord) -> list[Path]:
    directory = run.path / VIDEOS
    if directory.is_symlink():
        return []
    # Regular files alone: a link may point to a file that is nobody's business.
    return sorted(
        path
        for path in directory.glob("*")
        if path.suffix in _FILM_TYPES and stat.S_ISREG(path.lstat().st_mode) and os.access(path, os.R_OK)
    )


def _film(path: Path, output: Path) -> dict[str, str]:
    if path.stat().st_size <= FILM_BYTES:
        source = _data_uri(_FILM_TYPES[path.suffix], path.read_bytes())
    else:
        source = quote(os.fsencode(Path(os.path.relpath(path, output.resolve())).as_posix()))
    return {"name": _writable(path.name), "source": source}


def _equal_seeds(study: Study, root: Path) -> str:
    groups = study.equal_seeds()
    if not groups:
        return ""
    items = "".join(
        f"<li>seed {group[0].seed}: {_text(', '.join(str(run.path.relative_to(root)) for run in group))}</li>"
        for group in groups
    )
    return (
        '<section id="equal-seeds"><h2>Equal seeds</h2><p>Each of these runs counts as a seed of its own, though runs '
        "of one method on one task with equal seeds are not independent: the deviations shown are too small.</p>"
        f"<ul>{items}</ul></section>"
    )


def _unread(unread: Sequence[Unread]) -> str:
    if not unread:
        return ""
    items = "".join(f"<li>{_text(item.path)}: {_text(item.reason)}</li>" for item in unread)
    return f'<section id="unread"><h2>Left out</h2><ul>{items}</ul></section>'


def _numbers(values: np.ndarray) -> list[float | None]:
    """To seven digits, more than a screen shows; None for what was not measured."""
    return [float(f"{value:.7g}") if math.isfinite(value) else None for value in values]


def _plain(value: Any) -> Any:
    """`value` without the numbers that JSON lacks."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _text(value: object) -> str:
    return html.escape(_writable(str(value)))


def _writable(text: str) -> str:
    """The name of a file may hold bytes that are no text."""
    return text.encode(errors="backslashreplace").decode()


def _data_uri(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def _resource(name: str) -> str:
    return resources.files("cvpo.report").joinpath("assets", name).read_text(encoding="utf-8")
