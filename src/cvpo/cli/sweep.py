"""`cvpo sweep`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cvpo.cli.options import CostLimit, RayAddress, Switch, optional


def sweep(
    tasks: tuple[str, ...],
    steps: int,
    algorithms: tuple[str, ...] = ("cvpo",),
    seeds: tuple[int, ...] = (1,),
    set: Annotated[tuple[str, ...], optional("NAME=VALUES [NAME=VALUES ...]")] = (),
    preset: str = "default",
    cost_limit: CostLimit = (),
    output: Path = Path("runs"),
    workers: Annotated[int | None, optional("INT", "as many as there are cores for")] = None,
    cores: int = 1,
    ray: RayAddress = None,
    retries: int = 3,
    discard_checkpoints: Switch = False,
) -> None:
    """Train every combination of tasks, algorithms, settings and seeds. Run it again to continue after a stop.

    Args:
        tasks: Tasks or Gymnasium ids; module:id imports the module that registers the id.
        steps: Environment steps of each run.
        algorithms: The methods; `cvpo algorithms` lists them.
        seeds: How many seeds, counted from 0; or, if more than one number is given, the seeds themselves.
        set: Settings and the values to try: gamma=0.97,0.99 hidden=[64],[64,64]
        preset: Named settings to start from.
        cost_limit: Limit on the cost of an episode, one number for each constraint.
        output: Where the runs are written: OUTPUT/TASK/ALGORITHM+SETTINGS/seed-N.
        workers: Runs at the same time.
        cores: Cores for each run.
        ray: Train on a Ray cluster (extra: ray): auto, HOST:PORT, or local to start one here.
        retries: How often a run is resumed if its process dies.
        discard_checkpoints: Delete the checkpoints of finished runs; they take most of the space.
    """
    from cvpo.experiments import grid, sweep
    from cvpo.experiments.spec import parse_settings

    specs = grid(
        tasks,
        algorithms,
        range(seeds[0]) if len(seeds) == 1 else seeds,
        steps,
        settings=parse_settings(set),
        preset=preset,
        cost_limit=cost_limit or None,
    )
    ended = sweep(
        specs, output, workers=workers, cores=cores, ray=ray, retries=retries, discard_checkpoints=discard_checkpoints
    )
    sys.exit(any(status.state == "failed" for status in ended))
