"""`cvpo reproduce`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cvpo.cli.options import RayAddress, Switch, optional


def reproduce(
    scale: Literal["quick", "paper"] = "quick",
    tasks: Annotated[tuple[str, ...], optional("TASK [TASK ...]", "all five")] = (),
    algorithms: Annotated[tuple[str, ...], optional("NAME [NAME ...]", "all of the paper's")] = (),
    seeds: Annotated[int | None, optional("INT", "the scale's")] = None,
    preset: Annotated[str | None, optional("NAME", "paper for the scale paper, else default")] = None,
    output: Path = Path("reproduction"),
    workers: Annotated[int | None, optional("INT", "one for each core")] = None,
    ray: RayAddress = None,
    dry_run: Switch = False,
) -> None:
    """Run the paper's experiments, or some of them, and draw its figures. Run it again to continue after a stop.

    Args:
        scale: The paper's seeds and steps, or few enough of both for one night on a laptop.
        tasks: Only these tasks.
        algorithms: Only these methods; cvpo-no-kl is the ablation of the M-step's KL constraint.
        seeds: How many seeds, counted from 0.
        preset: Named settings.
        output: Where runs and report are written: OUTPUT/runs and OUTPUT/report.
        workers: Runs at the same time.
        ray: Train on a Ray cluster (extra: ray): auto, HOST:PORT, or local to start one here.
        dry_run: Only print what would run and how long it would take.
    """
    from cvpo.experiments.reproduce import reproduce

    ended = reproduce(scale, tasks, algorithms, seeds, preset, output=output, workers=workers, ray=ray, dry_run=dry_run)
    sys.exit(any(status.state == "failed" for status in ended))
