"""Keep what a report needs of finished runs: `python results/collect.py REPRODUCTION/runs ...`.

Each TASK/METHOD/seed-N below a given directory becomes one below runs/ beside this file, without weights and
checkpoints and with numbers of five digits: 20 KB instead of megabytes. `cvpo report results/runs` draws figures from
them.
"""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path
from typing import Any

from cvpo.report.load import load_runs
from cvpo.runs.directory import CONFIG, METRICS, read_metrics
from cvpo.runs.strict_json import to_json

KEPT = (
    "epoch", "steps", "wall_seconds", "train/reward", "train/cost", "train/cumulative_cost", "eval/reward", "eval/cost",
    "estep/feasible", "estep/multiplier", "policy/entropy", "mstep/kl_mean", "update/multiplier",
    "policy/multiplier",
)  # fmt: skip


def rounded(value: Any) -> Any:
    if isinstance(value, float) and math.isfinite(value) and value:
        return round(value, 4 - math.floor(math.log10(abs(value))))
    return value


def collect(run: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    short = ({key: rounded(line[key]) for key in KEPT if key in line} for line in read_metrics(run))
    (target / METRICS).write_text("".join(to_json(line) + "\n" for line in short))
    shutil.copy(run / CONFIG, target / CONFIG)


if __name__ == "__main__":
    for root in sys.argv[1:]:
        for run in load_runs([root])[0]:
            if run.finished:
                collect(run.path, Path(__file__).parent / "runs" / run.path.relative_to(Path(root)))
