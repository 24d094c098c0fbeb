"""`reproduce`: the runs of a suite through a sweep, and figures from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cvpo.experiments.spec import RunSpec, is_finished
from cvpo.experiments.status import Status
from cvpo.experiments.suites import core_hours, make_grid
from cvpo.experiments.sweep import sweep
from cvpo.machine import usable_cores


def reproduce(
    suite: str,
    scale: str = "quick",
    tasks: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: int | None = None,
    preset: str | None = None,
    steps: int | None = None,
    *,
    output: Path,
    workers: int | None = None,
    ray: str | None = None,
    dry_run: bool = False,
) -> list[Status]:
    """Train a suite, or some tasks and methods of it, in output/runs; report on it in output/report.

    Says first how long that takes; `dry_run` says only that, and returns nothing.
    """
    specs = make_grid(suite, scale, tasks, methods, seeds, preset, steps)
    print(describe(specs, output / "runs", workers or usable_cores(), each_run=dry_run))
    if dry_run:
        return []
    # A finished run of this grid is for the report; with a replay each, they would fill the disk.
    ended = sweep(specs, output / "runs", workers=workers, ray=ray, discard_checkpoints=True)
    if any(status.latest for status in ended):
        from cvpo.report import write_report

        print(f"report: {write_report([output / 'runs'], output / 'report')}")
    return ended


def describe(specs: Sequence[RunSpec], runs: Path, workers: int, each_run: bool) -> str:
    """What is to be run and how long it takes, less what is done already; line by line if `each_run`."""
    waiting = [spec for spec in specs if not is_finished(spec, runs / spec.path)]
    methods = {spec.method for spec in specs}
    hours = core_hours(waiting)
    lines = [f"{spec.path}: {spec.steps:,} steps" for spec in specs] if each_run else []
    lines += [
        f"{len(specs)} runs ({len(specs) - len(waiting)} done already): {len({spec.env for spec in specs})} tasks, "
        f"{len(methods)} methods, up to {len({spec.seed for spec in specs})} seeds",
        f"about {hours:.1f} core hours by the table in cvpo.experiments.suites: {hours / workers:.1f} hours for "
        f"{workers} at once with a core each, if this machine is like the one measured",
    ]
    return "\n".join(lines)
