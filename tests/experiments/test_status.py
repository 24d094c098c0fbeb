"""What is told of runs, and how long the rest takes."""

import io
import math
from pathlib import Path

import pytest
from rich.console import Console

from cvpo.experiments import RunSpec, Status
from cvpo.experiments.display import SweepTable
from cvpo.experiments.status import remaining_seconds


def status(algorithm="cvpo", seed=0, state="waiting", steps=0, seconds=0.0):
    latest = {"steps": steps, "wall_seconds": seconds, "train/reward": 1.5, "train/cost": 2.0} if steps else {}
    return Status(RunSpec("A", algorithm, 1000, seed), Path("unused"), state, latest=latest)


def test_the_rest_takes_what_like_runs_took():
    fast = status(state="running", steps=500, seconds=50.0)  # 50 s to go
    slow = status("cpo", state="done", steps=1000, seconds=1000.0)
    like_slow, unlike_any = status("cpo", 1), status("ppo", 2)  # 1000 s; (100 + 1000) / 2 s
    assert remaining_seconds([fast, slow, like_slow, unlike_any], 2) == pytest.approx((50 + 1000 + 550) / 2)
    assert math.isnan(remaining_seconds([status()], 1))


def test_a_run_fails_after_too_many_deaths(tmp_path):
    run = Status(RunSpec("A", "cvpo", 10), tmp_path, "running")
    run.died("SIGKILL", retries=1)
    assert (run.state, run.deaths) == ("waiting", 1)
    run.died("SIGKILL", retries=1)
    assert run.state == "failed" and "SIGKILL" in (tmp_path / "error.txt").read_text()


def test_the_short_error_is_what_the_traceback_ends_with():
    run = status()
    run.error = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in step\nValueError: out of order\nIn step 2.\n'
    )
    assert run.short_error == "ValueError: out of order In step 2."
    run.error = "its process died 4 times"
    assert run.short_error == "its process died 4 times"
    run.error = ""
    assert run.short_error == ""


def test_the_live_table_fits_the_terminal_and_shows_failures_first():
    runs = [status(seed=i) for i in range(30)]
    runs[20].state, runs[25].state = "failed", "running"
    runs[25].latest = {"steps": 500, "wall_seconds": 50.0, "train/reward": 1.5, "train/cost": 2.0}
    console = Console(file=io.StringIO(), width=100, height=15, force_terminal=True, color_system=None)
    console.print(SweepTable(runs, console))
    lines = console.file.getvalue().splitlines()
    assert len(lines) <= 15
    assert "0 done, 28 waiting, 1 running, 1 failed" in lines[0] and "left" in lines[0]
    rows = [line for line in lines if "seed-" in line]
    assert "seed-20" in rows[0] and "failed" in rows[0]
    assert all(word in rows[1] for word in ("seed-25", "running", "500", "1.50", "2.00", "0:00:50"))
    assert "and 22 more" in console.file.getvalue()


def test_without_a_terminal_each_change_is_one_line():
    run = status()
    console = Console(file=io.StringIO(), width=100)
    table = SweepTable([run], console)
    table.update(1)
    run.state = "running"
    table.update(1)
    table.update(1)
    run.latest = {"steps": 100, "wall_seconds": 10.0, "train/reward": 1.5, "train/cost": 2.0}
    table.update(1)
    assert console.file.getvalue().splitlines() == [
        "A/cvpo/seed-0: running, steps 0, left ?",
        "A/cvpo/seed-0: running, steps 100, reward 1.50, cost 2.00, left 0:01:30",
    ]
