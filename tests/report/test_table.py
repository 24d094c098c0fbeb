"""The table's numbers, computed by hand."""

import csv
import io
import math

import pytest
from made_runs import write_run

from cvpo.report.load import load_runs
from cvpo.report.study import Study
from cvpo.report.table import COLUMNS, as_csv, as_markdown, cell, make_table


@pytest.fixture
def rows(runs):
    """Two seeds of CVPO and one unfinished run of TRPO; of ten epochs, the last two are converged."""
    write_run(
        runs / "a",
        [0.0, 4.0, 7.0, 8.0, 8.0, 8.0, 8.0, 8.0, 9.0, 11.0],
        [20.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 4.0, 8.0],
        extra=lambda epoch: {"eval/reward": 12.0, "eval/cost": 3.0} if epoch == 9 else {},
    )
    write_run(
        runs / "b",
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 6.0, 6.0],
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 6.0, 14.0],
        seed=1,
    )
    write_run(runs / "c", [0.0, 2.0, 5.0, 7.0, 15.0], [50.0] * 5, algorithm="trpo", planned_epochs=10)
    return make_table(Study.of(load_runs([runs])[0]))


def test_values(rows):
    cvpo, trpo = rows
    assert (cvpo.constraint.name, cvpo.method, trpo.method) == ("Point-Goal", "CVPO", "TRPO")
    # the best method ends at 15 and all began at 0: the level is 12, which no run of CVPO reaches
    expected = {
        "runs": 2,
        "behind": 0,
        "unfinished": 0,
        "limit": 10.0,
        "reward": 8.0,  # of 10 and 6
        "reward_std": 2.0,
        "cost": 8.0,  # of 6 and 10
        "cost_std": 2.0,
        "cost_q3": 9.5,  # of 4, 6, 8, 14
        "limit_probability": 0.75,  # Student's t with one degree of freedom: a room of one standard error
        "within_limit": 0.75,
        "eval_reward": 12.0,
        "eval_cost": 3.0,
        "eval_cost_q3": 3.0,
        "cumulative_cost": (95.0 + 28.0) / 2,
        "cost_to_reach": float("inf"),
        "wall_seconds": 20.0,
    }
    assert cvpo.values == pytest.approx(expected)
    assert trpo.values["unfinished"] == 1 and trpo.values["cost_to_reach"] == 250.0
    assert trpo.values["eval_cost"] != trpo.values["eval_cost"]  # it was never evaluated


def test_epochs_of_unequal_length_are_averaged_until_they_are_alike(runs):
    """A method with short epochs gets no credit for a lucky one, and its costs scatter no more than they should."""
    write_run(
        runs / "short",
        [0.0, 0.0, 10.0, 0.0, 4.0, 6.0, 7.0, 8.0, 2.0],
        [9.0, 1.0, 0.0, 20.0, 4.0, 8.0, 5.0, 5.0, 1.0],
        epoch_steps=500,
        extra=lambda epoch: {"eval/reward": 1.0 + epoch, "eval/cost": 3.0} if epoch in (4, 8) else {},
    )
    write_run(runs / "long", [0.0, 5.0, 5.0, 10.0], [7.0] * 4, algorithm="trpo")
    study = Study.of(load_runs([runs])[0])
    (run,) = study.select("Point-Goal", "CVPO")
    assert run.steps.tolist() == [1000.0, 2000.0, 3000.0, 4000.0, 4500.0]
    assert run.reward.tolist() == [0.0, 5.0, 5.0, 7.5, 2.0]
    assert run.costs.tolist() == [[5.0, 10.0, 6.0, 5.0, 1.0]]
    assert run.cumulative_costs[0].tolist() == [10.0, 30.0, 42.0, 52.0, 53.0]
    assert run.eval_reward.tolist() == pytest.approx([math.nan, math.nan, 5.0, math.nan, 9.0], nan_ok=True)
    assert (run.wall_seconds[-1], run.finished) == (18.0, True)
    (trpo,) = study.select("Point-Goal", "TRPO")
    assert trpo.steps.tolist() == [1000.0, 2000.0, 3000.0, 4000.0]


def test_cost_to_reach_is_the_median_over_seeds(runs):
    for seed, paid in enumerate([10.0, 30.0, 50.0]):
        write_run(runs / str(seed), [0.0] + [10.0] * 9, [paid / 2] * 10, seed=seed)
    (row,) = make_table(Study.of(load_runs([runs])[0]))
    assert row.values["cost_to_reach"] == 30.0  # each reaches the level in its second epoch


def test_a_row_for_each_constraint(runs):
    write_run(runs / "a", [1.0] * 5, [[1.0] * 5, [7.0] * 5], limits=(2.0, "Infinity"))
    first, second = make_table(Study.of(load_runs([runs])[0]))
    assert (first.constraint.name, first.values["cost"], first.values["limit"]) == ("Point-Goal, cost 1", 1.0, 2.0)
    assert (second.constraint.name, second.values["cost"], second.values["within_limit"]) == (
        "Point-Goal, cost 2",
        7.0,
        1.0,
    )


def test_csv_holds_every_value_in_full(rows):
    read = list(csv.DictReader(io.StringIO(as_csv(rows))))
    assert [row["method"] for row in read] == ["CVPO", "TRPO"]
    for row, found in zip(rows, read, strict=True):
        for key, value in row.values.items():
            assert float(found[key]) == pytest.approx(value, nan_ok=True)


def test_markdown_is_what_a_reader_wants(rows):
    lines = as_markdown(rows).splitlines()
    assert lines[0].startswith("| Task | Method | Runs |")
    assert lines[2] == (
        "| Point-Goal | CVPO | 2 | 0 | 0 | 10 | 8 ± 2 | 8 ± 2 | 9.5 | 75% | 75% | 12 | 3 | 3 | 61.5 | ∞ | 20 s |"
    )
    assert len({line.count("|") for line in lines[:4]}) == 1
    assert all(any(line.startswith(f"- {column.title}: ") for line in lines) for column in COLUMNS)


@pytest.mark.parametrize(
    ("seconds", "text"), [(59, "59 s"), (61, "1 min"), (3599, "1 h 00 min"), (45000, "12 h 30 min")]
)
def test_durations(seconds, text):
    column = next(column for column in COLUMNS if column.key == "wall_seconds")
    assert cell(column, {"wall_seconds": seconds}) == text


def test_a_run_far_behind_its_method_counts_in_no_final_number(runs):
    write_run(runs / "a", [10.0] * 10, [5.0] * 10)
    write_run(runs / "b", [12.0] * 9, [7.0] * 9, seed=1, planned_epochs=10)  # the last 20% of the others has begun
    write_run(runs / "c", [0.0] * 2, [90.0] * 2, seed=2, planned_epochs=10)
    (row,) = make_table(Study.of(load_runs([runs])[0]))
    assert (row.values["runs"], row.values["behind"], row.values["unfinished"]) == (2, 1, 1)
    assert (row.values["reward"], row.values["cost"]) == (11.0, 6.0)
