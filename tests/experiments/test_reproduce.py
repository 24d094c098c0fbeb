"""The paper's grid, its estimate and its report."""

from collections import Counter

import pytest
from tiny_runs import tiny

from cvpo import cli
from cvpo.experiments.paper import COSTS, SCALES, core_hours, paper_grid
from cvpo.experiments.reproduce import reproduce


def test_the_grid_is_the_papers():
    specs = paper_grid("paper")
    assert len(specs) == len({spec.path for spec in specs}) == 5 * 9 * 10
    assert {spec.env for spec in specs} == {"Car-Circle", "Point-Goal", "Car-Goal", "Point-Button", "Car-Button"}
    baselines = {"sac-lag", "td3-lag", "ddpg-lag", "trpo", "trpo-lag", "ppo-lag", "cpo"}
    assert Counter(spec.algorithm for spec in specs) == {"cvpo": 100} | dict.fromkeys(baselines, 50)
    assert sum(spec.config == {"kl_constraint": False} for spec in specs) == 50
    assert {spec.seed for spec in specs} == set(range(10))
    for spec in specs[:45]:
        spec.check()


def test_a_part_of_it_can_be_chosen():
    specs = paper_grid("quick", ["Car-Circle"], ["cvpo", "cvpo-no-kl"], seeds=1)
    assert [str(spec.path) for spec in specs] == [
        "Car-Circle/cvpo/seed-0",
        "Car-Circle/cvpo+kl_constraint=False/seed-0",
    ]
    assert 0 <= specs[0].steps - SCALES["quick"].steps < 20 * 300  # whole epochs
    assert specs[0].steps % (20 * 300) == 0
    longer = paper_grid("quick", ["Car-Goal"], ["cvpo", "ppo-lag"], seeds=1)
    assert [spec.steps for spec in longer] == [400_000, 1_000_000]
    with pytest.raises(ValueError, match="no task 'Car-Cirle'; did you mean 'Car-Circle'"):
        paper_grid("quick", ["Car-Cirle"])


def test_the_estimate_adds_up_steps_and_updates(monkeypatch):
    """A millisecond for a step and eight for an update, of which there is one in four steps: three in all."""
    monkeypatch.setitem(COSTS["default"], "cvpo", (1.0, 8.0))
    (spec,) = paper_grid("quick", ["Point-Goal"], ["cvpo"], seeds=1)
    assert spec.steps == 400_000
    assert core_hours([spec, spec]) == pytest.approx(2 / 3)


def test_the_quick_scale_takes_one_night_of_two_cores():
    assert 4 < core_hours(paper_grid("quick")) / 2 < 12


def test_a_dry_run_says_what_and_how_long_and_runs_nothing(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["reproduce", "--dry-run", "--tasks", "Car-Circle", "--seeds", "1", "--output", str(tmp_path / "out")])
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert "9 runs (0 done already): 1 tasks, 9 methods, up to 1 seeds" in lines[-2]
    assert "hours" in lines[-1] and len(lines) == 9 + 2
    assert not (tmp_path / "out").exists()


def test_it_ends_with_a_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("cvpo.experiments.reproduce.paper_grid", lambda *_: [tiny()])
    monkeypatch.setattr("cvpo.experiments.reproduce.core_hours", lambda *_: 0.0)
    (ended,) = reproduce("quick", output=tmp_path)
    assert ended.state == "done" and not (ended.directory / "checkpoints").exists()
    assert "TinyBandit" in (tmp_path / "report" / "index.html").read_text()
