"""results/benchmarks.py: the page of tables beside published numbers."""

import importlib.util
from pathlib import Path

import pytest
from made_runs import write_run

SCRIPT = Path(__file__).parents[2] / "results" / "benchmarks.py"


@pytest.fixture(scope="module")
def benchmarks():
    spec = importlib.util.spec_from_file_location("benchmarks_page", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_run(path, env, reward, cost, *, algorithm="cvpo", seed=0, planned_epochs=None, epoch_steps=30_000):
    """Ten epochs whose evaluations have this reward and cost."""
    limits = (10.0,) if env == "Point-Goal" else (25.0,)
    write_run(
        path / env / algorithm / f"seed-{seed}", [0.0] * 10, [1.0] * 10, env=env, algorithm=algorithm, seed=seed,
        limits=limits, epoch_steps=epoch_steps, planned_epochs=planned_epochs,
        extra=lambda epoch: {"eval/reward": reward if epoch > 7 else -1000.0, "eval/cost": cost},
    )  # fmt: skip


def row(page, method, text):
    """The cells of the row of a method in the part of the page that begins with a text."""
    lines = page[page.index(text) :].splitlines()
    return [cell.strip() for cell in next(line for line in lines if f"| {method} |" in line).split("|")[1:-1]]


def test_methods_stand_beside_what_is_published(benchmarks, runs, tmp_path):
    env = "SafetyHalfCheetahVelocity"
    make_run(runs, env, 2900.0, 10.0)
    make_run(runs, env, 3000.0, 14.0, seed=1)
    make_run(runs, env, 2000.0, 60.0, algorithm="sac-lag")
    make_run(runs, "SafetyHopperVelocity", 900.0, 10.0, planned_epochs=20)  # unfinished
    benchmarks.write_page([runs], tmp_path / "docs" / "benchmarks.md")
    page = (tmp_path / "docs" / "benchmarks.md").read_text()
    assert row(page, "CVPO", env)[1:7] == ["CVPO", "300,000", "2", "2,950 ± 70.7", "12.0", "14.0"]
    assert row(page, "SAC-Lag", env)[1:7] == ["SAC-Lag", "300,000", "1", "2,000", "**60.0**", "**60.0**"]
    off_policy, on_policy = row(page, "SACLag", env), row(page, "PPOLag", env)
    assert off_policy[1:6] == ["SACLag", "1,000,000", "-", "2,834", "0.0"] and "omnisafe" in off_policy[-1]
    assert on_policy[1:6] == ["PPOLag", "10,000,000", "-", "2,946", "3.0"]
    # the best published one that is off-policy and within the limit
    verdict = page[page.index("Against the best published") :]
    assert f"| {env} | yes | SACLag, 2,834 | 2,950 | 30% | yes |" in verdict
    assert "Hopper" not in page and "navigation" not in page
    assert "cvpo reproduce --suite velocity --algorithms cvpo --tasks SafetyHalfCheetahVelocity --seeds 2" in page
    assert (tmp_path / "docs" / "images" / "benchmark-velocity.png").stat().st_size > 1000


def test_a_limit_is_not_kept_if_a_quarter_of_the_evaluations_is_above_it(benchmarks, runs, tmp_path):
    env = "SafetyPointGoal1"
    for seed, cost in enumerate((10.0, 10.0, 40.0)):
        make_run(runs, env, 26.0, cost, seed=seed)
    benchmarks.write_page([runs], tmp_path / "benchmarks.md")
    page = (tmp_path / "benchmarks.md").read_text()
    assert f"| {env} | no | SACLag, 21.5 | 26.0 | 10% | no |" in page


def test_other_settings_are_a_row_of_their_own(benchmarks, runs, tmp_path):
    make_run(runs / "new", "Point-Goal", 30.0, 5.0)
    make_run(runs / "old", "Point-Goal", 20.0, 5.0)
    make_run(runs / "old", "SafetyHopperVelocity", 900.0, 5.0)  # of a suite that has no other run
    page = tmp_path / "benchmarks.md"
    benchmarks.write_page([runs / "new"], page, {"CVPO with settings by task": [runs / "old"]})
    text = page.read_text()
    assert row(text, "CVPO", "Point-Goal")[4] == "30.0"
    assert row(text, "CVPO with settings by task", "Point-Goal")[4] == "20.0"
    assert row(text, "CVPO with settings by task", "Safety Gym: velocity")[4] == "900"
    # Nothing of today stands beside it.
    assert "published off-policy" not in text
    assert "benchmark-velocity" not in text and "--suite velocity" not in text


def test_each_command_has_the_steps_of_its_tasks(benchmarks, runs, tmp_path):
    make_run(runs, "SafetyPointGoal1", 26.0, 10.0, epoch_steps=100_000)
    make_run(runs, "SafetyCarGoal1", 26.0, 10.0, epoch_steps=50_000)  # as planned
    benchmarks.write_page([runs], tmp_path / "benchmarks.md")
    commands = (tmp_path / "benchmarks.md").read_text().replace("\\\n    ", "").splitlines()
    common = "cvpo reproduce --suite navigation --algorithms cvpo --tasks"
    assert f"{common} SafetyPointGoal1 --seeds 1 --steps 1000000" in commands
    assert f"{common} SafetyCarGoal1 --seeds 1" in commands


def test_a_note_stands_below_the_verdicts_of_its_task_only(benchmarks, runs, tmp_path):
    make_run(runs, "SafetyPointCircle1", 45.0, 5.0)
    benchmarks.write_page([runs], tmp_path / "with.md")
    page = (tmp_path / "with.md").read_text()
    assert page.index("reached |") < page.index("- SafetyPointCircle1: ") < page.index("![Curves")
    make_run(runs / "more", "SafetyPointGoal1", 45.0, 5.0)
    benchmarks.write_page([runs / "more"], tmp_path / "without.md")
    assert "- SafetyPoint" not in (tmp_path / "without.md").read_text()
