"""Keep what a report needs of finished runs: `python results/collect.py REPRODUCTION/runs ...`.

Each TASK/METHOD/seed-N below a given directory becomes one beside this file, without weights and checkpoints and with
numbers of five digits: 20 KB instead of megabytes. `cvpo report results` draws the figures from them.
"""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path
from typing import Any

from cvpo.runs.directory import CONFIG, FINISHED, METRICS, read_metrics
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
    for name in (CONFIG, FINISHED):
        shutil.copy(run / name, target / name)


if __name__ == "__main__":
    for root in map(Path, sys.argv[1:]):
        for finished in sorted(root.glob(f"*/*/*/{FINISHED}")):
            collect(finished.parent, Path(__file__).parent / finished.parent.relative_to(root))
