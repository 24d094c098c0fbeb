"""The suites, their estimate and their report."""

import math
from collections import Counter

import pytest
from tiny_runs import tiny

from cvpo import cli
from cvpo.experiments.reproduce import reproduce
from cvpo.experiments.suites import COSTS, SUITES, core_hours, make_grid


def test_the_grid_is_the_papers():
    specs = make_grid("paper", "paper")
    assert len(specs) == len({spec.path for spec in specs}) == 5 * 9 * 10
    assert {spec.env for spec in specs} == {"Car-Circle", "Point-Goal", "Car-Goal", "Point-Button", "Car-Button"}
    baselines = {"sac-lag", "td3-lag", "ddpg-lag", "trpo", "trpo-lag", "ppo-lag", "cpo"}
    assert Counter(spec.algorithm for spec in specs) == {"cvpo": 100} | dict.fromkeys(baselines, 50)
    assert sum(spec.config == {"kl_constraint": False} for spec in specs) == 50
    assert {spec.seed for spec in specs} == set(range(10))
    for spec in specs[:45]:
        spec.check()


def test_a_part_of_it_can_be_chosen():
    specs = make_grid("paper", "quick", ["Car-Circle"], ["cvpo", "cvpo-no-kl"], seeds=1)
    assert [str(spec.path) for spec in specs] == [
        "Car-Circle/cvpo/seed-0",
        "Car-Circle/cvpo+kl_constraint=False/seed-0",
    ]
    assert 0 <= specs[0].steps - SUITES["paper"]["quick"].steps < 20 * 300  # whole epochs
    assert specs[0].steps % (20 * 300) == 0
    longer = make_grid("paper", "quick", ["Car-Goal"], ["cvpo", "ppo-lag"], seeds=1)
    assert [spec.steps for spec in longer] == [400_000, 1_000_000]
    with pytest.raises(ValueError, match="the suite paper has no task 'Car-Cirle'; did you mean 'Car-Circle'"):
        make_grid("paper", "quick", ["Car-Cirle"])


def test_the_benchmarks_are_those_of_the_published_tables():
    velocity, navigation = make_grid("velocity"), make_grid("navigation")
    robots = ("HalfCheetah", "Hopper", "Walker2d", "Swimmer", "Ant", "Humanoid")
    assert {spec.env for spec in velocity} == {f"Safety{robot}Velocity" for robot in robots}
    assert len({spec.env for spec in navigation}) == 7
    for specs, steps in ((velocity, 300_000), (navigation, 500_000)):
        by_method = {spec.algorithm: spec.steps for spec in specs}
        assert by_method == {"cvpo": steps, "sac-lag": steps, "td3-lag": steps} | dict.fromkeys(
            ("ppo-lag", "cpo", "trpo-lag"), 2_000_000
        )
        assert {spec.seed for spec in specs if spec.algorithm == "cvpo"} == {0, 1, 2}
        # one setting for all
        assert all(spec.preset == "default" and not spec.config and spec.cost_limit is None for spec in specs)
        assert core_hours(specs) > 0
        for spec in specs:
            spec.check()


def test_steps_and_preset_can_be_others():
    (spec,) = make_grid("paper", "quick", ["Point-Goal"], ["sac-lag"], seeds=1, preset="reference", steps=600_000)
    assert (spec.steps, spec.preset) == (600_000, "reference") and core_hours([spec]) > 0
    with pytest.raises(ValueError, match="the suite velocity has no scale 'paper'"):
        make_grid("velocity", "paper")


def test_the_estimate_adds_up_steps_and_updates(monkeypatch):
    """A millisecond for a step, eight for an update. There is one in four steps, and early on one in each of 10,000;
    until 40,000 the ratio falls as 1 / steps."""
    monkeypatch.setitem(COSTS["default"], "cvpo", (1.0, 8.0))
    (spec,) = make_grid("paper", "quick", ["Point-Goal"], ["cvpo"], seeds=1)
    assert spec.steps == 400_000
    updates = 10_000 * (1 + math.log(4)) + 360_000 / 4
    assert core_hours([spec, spec]) == pytest.approx(2 * (400_000 + 8 * updates) / 3_600_000, rel=1e-5)


def test_the_quick_scale_takes_one_night_of_two_cores():
    assert 4 < core_hours(make_grid("paper")) / 2 < 12


def test_a_dry_run_says_what_and_how_long_and_runs_nothing(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["reproduce", "--dry-run", "--tasks", "Car-Circle", "--seeds", "1", "--output", str(tmp_path / "out")])
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert "9 runs (0 done already): 1 tasks, 9 methods, up to 1 seeds" in lines[-2]
    assert "hours" in lines[-1] and len(lines) == 9 + 2
    assert not (tmp_path / "out").exists()


def test_it_ends_with_a_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("cvpo.experiments.reproduce.make_grid", lambda *_: [tiny()])
    monkeypatch.setattr("cvpo.experiments.reproduce.core_hours", lambda *_: 0.0)
    (ended,) = reproduce("paper", output=tmp_path)
    assert ended.state == "done" and not (ended.directory / "checkpoints").exists()
    assert (tmp_path / "report" / "index.html").exists()
    assert "TinyBandit" in (tmp_path / "report" / "table.md").read_text()
