"""results/collect.py: what a report needs of a run, as the project's own files."""

import math
import runpy
from pathlib import Path

from made_runs import write_run

from cvpo.runs.directory import METRICS, read_metrics

SCRIPT = Path(__file__).parents[2] / "results" / "collect.py"


def test_what_json_lacks_is_kept_as_a_run_writes_it(runs):
    run = write_run(runs / "run", [1.234567, 2.0], [3.0, 4.0], extra=lambda epoch: {"eval/cost": "NaN"})
    runpy.run_path(str(SCRIPT))["collect"](run, runs / "kept")
    lines = read_metrics(runs / "kept")
    assert lines[0]["train/reward"] == 1.2346 and math.isnan(lines[0]["eval/cost"])
    assert (runs / "kept" / METRICS).read_text().count('"NaN"') == 2
