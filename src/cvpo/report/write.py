"""`write_report`: from run directories to a page, figures and tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cvpo.errors import BadValue, UserError
from cvpo.report.data import page_data
from cvpo.report.figures import draw_figures
from cvpo.report.films import Embedding
from cvpo.report.load import Unread, load_runs
from cvpo.report.page import make_page, pack
from cvpo.report.study import Study
from cvpo.report.style import rendered, styled
from cvpo.report.table import as_csv, as_markdown, make_table
from cvpo.runs.atomic import why_not_written, write_file, write_text
from cvpo.runs.directory import RunDirectoryError

FORMATS = ("png", "svg", "pdf")


def write_report(paths: Sequence[str | Path], output: str | Path, *, formats: Sequence[str] = ("png", "svg")) -> Path:
    """Write a report on all runs in and below `paths` and return its page, output/index.html.

    The page holds all it shows, except films too large for it. Beside it: figures/ in the given formats (png, svg,
    pdf), table.csv and table.md. Runs may be unfinished; those that cannot be read are listed with the reason.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise BadValue(f"formats must be among {', '.join(FORMATS)}, got {unknown[0]!r}")
    runs, unread = load_runs(paths)
    if not runs:
        where = ", ".join(map(str, paths)) or "no directory"
        reasons = "".join(f"; {item.path}: {item.reason}" for item in unread)
        raise RunDirectoryError(
            f"no run to report on in or below {where}: a run is a directory with config.json and metrics.jsonl{reasons}"
        )
    output = Path(output)
    try:
        return _write(Study.of(runs), unread, output, formats)
    except OSError as error:
        raise UserError(why_not_written(output, error)) from error


def _write(study: Study, unread: Sequence[Unread], output: Path, formats: Sequence[str]) -> Path:
    (output / "figures").mkdir(parents=True, exist_ok=True)
    with styled():
        for drawn in draw_figures(study):
            for name, content in rendered(drawn.figure, formats).items():
                write_file(output / "figures" / f"{drawn.name}.{name}", content)
    rows = make_table(study)
    write_text(output / "table.csv", as_csv(rows))
    write_text(output / "table.md", as_markdown(rows))
    page = output / "index.html"
    write_text(page, make_page(pack(page_data(study, unread, Embedding(output).source))))
    return page
