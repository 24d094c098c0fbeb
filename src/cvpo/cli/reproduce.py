"""`cvpo reproduce`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cvpo.cli.options import RayAddress, Switch, optional


def reproduce(
    suite: Literal["paper", "velocity", "navigation"] = "paper",
    scale: Literal["quick", "paper"] = "quick",
    tasks: Annotated[tuple[str, ...], optional("TASK [TASK ...]", "all of the suite's")] = (),
    algorithms: Annotated[tuple[str, ...], optional("NAME [NAME ...]", "all of the suite's")] = (),
    seeds: Annotated[int | None, optional("INT", "the suite's, by method")] = None,
    steps: Annotated[int | None, optional("INT", "the suite's, by method")] = None,
    preset: Annotated[str | None, optional("NAME", "paper for the scale paper, else default")] = None,
    output: Path = Path("reproduction"),
    workers: Annotated[int | None, optional("INT", "one for each core")] = None,
    ray: RayAddress = None,
    dry_run: Switch = False,
) -> None:
    """Run the experiments of the paper or of a benchmark, or some of them, and draw the figures.

    Run it again to continue after a stop.

    Args:
        suite: The paper's five tasks, or Safety Gym's with the methods of published tables.
        scale: Few enough seeds and steps for one night on a laptop; or, of the suite paper, the paper's.
        tasks: Only these tasks.
        algorithms: Only these methods; cvpo-no-kl is the ablation of the M-step's KL constraint.
        seeds: How many seeds, counted from 0.
        steps: Environment steps of each run.
        preset: Named settings: default, paper, or reference, those of the code published with the paper.
        output: Where runs and report are written: OUTPUT/runs and OUTPUT/report.
        workers: Runs at the same time.
        ray: Train on a Ray cluster (extra: ray): auto, HOST:PORT, or local to start one here.
        dry_run: Only print what would run and how long it would take.
    """
    from cvpo.experiments.reproduce import reproduce

    ended = reproduce(
        suite, scale, tasks, algorithms, seeds, preset, steps, output=output, workers=workers, ray=ray, dry_run=dry_run
    )
    sys.exit(any(status.state == "failed" for status in ended))
