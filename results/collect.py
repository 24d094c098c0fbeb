"""Copy what the report needs of finished runs: `python results/collect.py RUNS...` -> results/TASK/METHOD/seed-N.

Numbers are rounded to five digits and what only debugging needs is left out, which is a tenth of the size.
"""

import json
import math
import shutil
import sys
from pathlib import Path

KEPT = ("train/", "eval/", "estep/feasible", "estep/multiplier", "policy/", "update/multiplier", "update/kl", "mstep/kl")
PLAIN = ("epoch", "steps", "wall_seconds")


def rounded(value):
    if isinstance(value, float) and math.isfinite(value) and value:
        return round(value, 4 - math.floor(math.log10(abs(value))))
    return value


def main() -> None:
    for root in map(Path, sys.argv[1:]):
        for finished in sorted(root.glob("*/*/*/finished.json")):
            run = finished.parent
            target = Path(__file__).parent / run.relative_to(root)
            target.mkdir(parents=True, exist_ok=True)
            lines = (json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines())
            short = ({k: rounded(v) for k, v in m.items() if k in PLAIN or k.startswith(KEPT)} for m in lines)
            (target / "metrics.jsonl").write_text("".join(json.dumps(m) + "\n" for m in short))
            for name in ("config.json", "finished.json"):
                shutil.copy(run / name, target / name)


if __name__ == "__main__":
    main()
