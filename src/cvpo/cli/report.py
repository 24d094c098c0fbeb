"""`cvpo report RUNS`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro


def report(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS")],
    output: Path = Path("report"),
) -> None:
    """Draw the figures and tables of runs, and write them into one HTML page.

    Args:
        runs: Run directories, or directories above them.
        output: Where the report is written; open index.html in it.
    """
    from cvpo.report import write_report

    print(write_report(list(runs), output))
