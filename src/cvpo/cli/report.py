"""`cvpo report RUNS`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import tyro

from cvpo.cli.options import Switch, optional
from cvpo.errors import UserError


def report(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS")],
    output: Path = Path("report"),
    formats: tuple[str, ...] = ("png", "svg"),
    watch: Switch = False,
    port: Annotated[int | None, optional("INT", "one that is free")] = None,
) -> None:
    """Write the page, the figures and the tables of runs; or show the page while runs go on.

    Args:
        runs: Run directories, or directories above them.
        output: Where the report is written; open index.html in it.
        formats: Of the figures: png, svg, pdf.
        watch: Write nothing, and serve the page to this machine until Ctrl-C. It follows the runs.
        port: Where it is served.
    """
    if watch:
        from cvpo.report.live import serve
        from cvpo.report.opening import open_in_browser

        def announce(address: str) -> None:
            print(f"watch {address} (Ctrl-C ends it)", flush=True)
            open_in_browser(address)

        with contextlib.suppress(KeyboardInterrupt):  # how it is meant to end
            serve(list(runs), port or 0, announce)
        return
    if port is not None:
        raise UserError("--port is of --watch, which serves the page instead of writing it")
    from cvpo.report import write_report

    print(write_report(list(runs), output, formats=formats))
