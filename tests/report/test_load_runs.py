"""Which runs are found, what is read of them, and what they are called."""

import math

import numpy as np
import pytest
from made_runs import write_run

from cvpo.report.load import find_runs, load_runs, read_run
from cvpo.report.study import Study
from cvpo.runs.directory import RunDirectoryError


def test_runs_are_found_at_any_depth_and_each_once(runs):
    write_run(runs / "a", [1.0], [0.0])
    write_run(runs / "deep" / "er" / "b", [1.0], [0.0])
    (runs / "other").mkdir()
    (runs / "other" / "config.json").write_text("{}")
    assert find_runs([runs, runs / "deep", runs / "a"]) == [runs / "a", runs / "deep" / "er" / "b"]


def test_a_path_that_is_no_directory_is_named(runs):
    with pytest.raises(RunDirectoryError, match=r"nothing is not a directory"):
        find_runs([runs / "nothing"])


def test_columns_of_a_run(runs):
    path = write_run(
        runs / "a",
        [1.0, "NaN", 3.0, 4.0, 5.0],
        [4.0, 3.0, 2.0, 1.0, 0.0],
        extra=lambda epoch: {"eval/reward": 10.0 * epoch, "eval/cost": 1.0} if epoch % 2 else {},
    )
    run = read_run(path)
    np.testing.assert_array_equal(run.steps, [1000, 2000, 3000, 4000, 5000])
    np.testing.assert_array_equal(run.reward, [1.0, math.nan, 3.0, 4.0, 5.0])
    np.testing.assert_array_equal(run.costs, [[4.0, 3.0, 2.0, 1.0, 0.0]])
    np.testing.assert_array_equal(run.cumulative_costs, [[4.0, 7.0, 9.0, 10.0, 10.0]])
    np.testing.assert_array_equal(run.eval_reward, [math.nan, 10.0, math.nan, 30.0, math.nan])
    np.testing.assert_array_equal(run.wall_seconds, [2.0, 4.0, 6.0, 8.0, 10.0])
    np.testing.assert_array_equal(run.converged, [False, False, False, False, True])
    assert run.finished and run.off_policy and run.limits == (10.0,)


def test_several_constraints(runs):
    run = read_run(write_run(runs / "a", [1.0, 2.0], [[3.0, 4.0], [5.0, 6.0]], limits=(3.5, "Infinity")))
    np.testing.assert_array_equal(run.costs, [[3.0, 4.0], [5.0, 6.0]])
    np.testing.assert_array_equal(run.cumulative_costs, [[3.0, 7.0], [5.0, 11.0]])
    np.testing.assert_array_equal(run.within(run.limits), [1.0, 0.0])
    constraints = Study.of([run]).constraints("Point-Goal")
    assert [(c.name, c.limit) for c in constraints] == [("Point-Goal, cost 1", 3.5), ("Point-Goal, cost 2", math.inf)]


def test_a_run_that_is_being_written(runs):
    path = write_run(runs / "a", [1.0, 2.0], [0.0, 0.0], planned_epochs=5, ending='{"epoch": 2, "ste')
    run = read_run(path)
    assert len(run.steps) == 2 and not run.finished


def test_an_unreadable_run_does_not_hide_the_others(runs):
    write_run(runs / "good", [1.0], [0.0])
    write_run(runs / "new", [], [])
    (write_run(runs / "broken", [1.0], [0.0]) / "config.json").write_text("{")
    (write_run(runs / "foreign", [1.0], [0.0]) / "config.json").write_text("{}")
    found, unread = load_runs([runs])
    assert [run.path.name for run in found] == ["good"]
    reasons = {item.path.name: item.reason for item in unread}
    assert reasons.keys() == {"broken", "foreign", "new"}
    assert "not JSON" in reasons["broken"] and "lacks 'env'" in reasons["foreign"] and "no finished" in reasons["new"]


def study_of(runs):
    return Study.of(load_runs([runs])[0])


def test_algorithms_by_their_usual_names_in_the_papers_order(runs):
    for name in ("cpo", "my_method", "ddpg-lag", "trpo", "cvpo", "sac-lag", "ppo-lag", "trpo-lag", "td3-lag", "sac"):
        write_run(runs / name, [1.0], [0.0], algorithm=name)
    expected = "CVPO SAC-Lag TD3-Lag DDPG-Lag TRPO TRPO-Lag PPO-Lag CPO MY-Method SAC"
    study = study_of(runs)
    assert " ".join(study.methods) == expected
    assert [m for m in study.methods if not study.off_policy(m)] == ["TRPO", "TRPO-Lag", "PPO-Lag", "CPO"]


def test_the_ablation_is_its_own_method(runs):
    write_run(runs / "a", [1.0], [0.0])
    write_run(runs / "b", [1.0], [0.0], config={"kl_constraint": False})
    assert study_of(runs).methods == ["CVPO", "CVPO (no KL)"]


def test_methods_are_told_apart_by_what_differs_on_a_task(runs):
    for number, (task, config, preset) in enumerate(
        [
            ("Point-Goal", {"batch_size": 64, "gamma": 0.99, "threads": 1}, "default"),
            ("Point-Goal", {"batch_size": 300, "gamma": 0.9, "threads": 2}, "default"),
            ("Car-Goal", {"batch_size": 64, "gamma": 0.5}, "default"),  # gamma here differs from the other task's
            ("Car-Goal", {"batch_size": 16, "gamma": 0.5}, "paper"),
        ]
    ):
        write_run(runs / str(number), [1.0], [0.0], env=task, algorithm="sac-lag", config=config, preset=preset)
    # gamma follows from batch_size, threads change nothing, the preset explains its batch_size
    assert study_of(runs).run_methods == [
        "SAC-Lag (batch_size=64)",
        "SAC-Lag (batch_size=300)",
        "SAC-Lag (batch_size=64)",
        "SAC-Lag (paper preset, batch_size=16)",
    ]


def test_variants_stand_in_the_order_of_their_numbers(runs):
    for number, size in enumerate([128, 16, 1000]):
        write_run(runs / str(number), [1.0], [0.0], config={"batch_size": size})
    assert study_of(runs).methods == [f"CVPO (batch_size={size})" for size in (16, 128, 1000)]


def test_what_only_looks_like_a_number_stops_no_report(runs):
    for number, text in enumerate(["1.2.3", ".", "1e"]):
        write_run(runs / str(number), [1.0], [0.0], config={"label": text})
    assert set(study_of(runs).methods) == {"CVPO (label=1.2.3)", "CVPO (label=.)", "CVPO (label=1e)"}


def test_words_for_settings(runs):
    for number, config in enumerate([{"hidden": [64, 64], "per_state": True}, {"hidden": [256], "per_state": True}]):
        write_run(runs / f"hidden-{number}", [1.0], [0.0], config=config)
    write_run(runs / "state", [1.0], [0.0], config={"hidden": [256], "per_state": False})
    assert study_of(runs).run_methods == [
        "CVPO (hidden=64×64, per_state)",
        "CVPO (hidden=256, per_state)",
        "CVPO (hidden=256, no per_state)",
    ]


def test_a_setting_that_an_older_version_did_not_have_makes_no_method(runs):
    for name, config in (("old", {}), ("new", {"cut_traces": True})):
        write_run(runs / name, [1.0], [0.0], config=config)
    write_run(runs / "task", [1.0], [0.0], env="Car-Goal", config={"cut_traces": False})
    assert study_of(runs).methods == ["CVPO"]


def test_an_unconstrained_run_belongs_to_the_task_of_the_constrained(runs):
    write_run(runs / "a", [1.0], [0.0], limits=(10.0,))
    write_run(runs / "b", [1.0], [0.0], limits=("Infinity",), algorithm="trpo")
    study = study_of(runs)
    assert study.tasks == ["Point-Goal"] and study.limits("Point-Goal") == (10.0,)


def test_different_limits_make_different_tasks(runs):
    write_run(runs / "a", [1.0], [0.0], limits=(10.0,))
    write_run(runs / "b", [1.0], [0.0], limits=(20.0,))
    write_run(runs / "c", [1.0], [0.0], limits=("Infinity",), algorithm="trpo")
    assert study_of(runs).run_tasks == ["Point-Goal (limit 10)", "Point-Goal (limit 20)", "Point-Goal (no limit)"]


def test_environments_that_only_share_a_name_are_different_tasks(runs):
    made = {"made_by": "mine.Env", "observation": [3], "action": [2]}
    write_run(runs / "a", [1.0], [0.0], environment=made | {"arguments": {"size": 3, "wind": True}})
    write_run(runs / "b", [1.0], [0.0], environment=made | {"arguments": {"size": 5, "wind": True}})
    write_run(runs / "c", [1.0], [0.0], environment=made | {"arguments": {"size": 5, "wind": True}}, seed=1)
    write_run(runs / "d", [1.0], [0.0])  # an older version did not say
    assert study_of(runs).run_tasks == [
        "Point-Goal (size=3)",
        "Point-Goal (size=5)",
        "Point-Goal (size=5)",
        "Point-Goal (environment unknown)",
    ]


def test_environments_of_other_code_are_different_tasks(runs):
    for name in ("a", "b"):
        write_run(runs / name, [1.0], [0.0], environment={"made_by": "mine.make", "arguments": {}, "code": name})
    assert study_of(runs).run_tasks == ["Point-Goal (environment 1)", "Point-Goal (environment 2)"]


def test_an_older_run_without_a_word_on_its_environment_belongs_to_the_only_one_there_is(runs):
    write_run(runs / "a", [1.0], [0.0], environment={"made_by": "Point-Goal", "arguments": {}})
    write_run(runs / "b", [1.0], [0.0], seed=1)
    assert study_of(runs).tasks == ["Point-Goal"]


def test_episodes_of_other_lengths_and_other_costs_are_different_tasks(runs):
    write_run(runs / "a", [1.0], [0.0], spec={"episode_length": 100}, config={"episode_length": 100})
    write_run(runs / "b", [1.0], [0.0], spec={"episode_length": 400}, config={"episode_length": 400})
    write_run(runs / "c", [1.0], [[0.0], [0.0]], limits=("Infinity", "Infinity"), env="Two")
    write_run(runs / "d", [1.0], [0.0], limits=("Infinity",), env="Two")
    write_run(runs / "e", [1.0], [0.0], env="Key", config={"cost_keys": ["speed"]})
    write_run(runs / "f", [1.0], [0.0], env="Key", config={"cost_keys": ["crash"]})
    study = study_of(runs)
    assert study.run_tasks == [
        "Point-Goal (episodes of 100 steps)",
        "Point-Goal (episodes of 400 steps)",
        "Two (2 costs)",
        "Two (1 cost)",
        "Key (cost from speed)",
        "Key (cost from crash)",
    ]
    assert study.methods == ["CVPO"]  # what makes a task makes no method


def test_limits_on_other_statistics_are_different_tasks(runs):
    for name in ("mean", "cvar=0.9"):
        write_run(runs / name, [1.0], [0.0], config={"constraint": name})
    assert study_of(runs).run_tasks == ["Point-Goal (limit 10 on the cvar=0.9)", "Point-Goal (limit 10 on the mean)"]


def test_constraints_are_called_by_their_names(runs):
    write_run(runs / "a", [1.0], [[1.0], [2.0]], limits=(3.0, 4.0), config={"cost_keys": ["speed", "crash"]})
    constraints = study_of(runs).constraints("Point-Goal")
    assert [(c.cost, c.name) for c in constraints] == [("speed", "Point-Goal, speed"), ("crash", "Point-Goal, crash")]


def test_a_copy_of_a_run_is_counted_once(runs):
    whole = write_run(runs / "whole", [1.0, 2.0], [0.0, 0.0])
    write_run(runs / "early copy", [1.0], [0.0], provenance={"id": str(whole), "versions": {}})
    found, unread = load_runs([runs])
    assert [run.path.name for run in found] == ["whole"]
    assert [(item.path.name, item.reason) for item in unread] == [
        ("early copy", f"is a copy of {whole}, and counted once")
    ]


def test_failed_runs_are_found_with_their_error(runs):
    (write_run(runs / "a", [1.0], [0.0], planned_epochs=3) / "error.txt").write_text("Traceback\nValueError: far\n")
    early = runs / "b"
    early.mkdir()
    (early / "spec.json").write_text("{}")
    (early / "error.txt").write_text("no such task")
    begun = write_run(runs / "c", [], [])
    (begun / "metrics.jsonl").unlink()
    (begun / "error.txt").write_text("out of memory")
    (run,), unread = load_runs([runs])
    assert run.error == "Traceback\nValueError: far" and not run.finished
    assert [(item.path.name, item.error) for item in unread] == [("b", "no such task"), ("c", "out of memory")]


def test_everything_that_was_logged_is_there(runs):
    run = read_run(
        write_run(runs / "a", [1.0, 2.0], [0.0, 0.0], extra=lambda epoch: {"estep/kl": epoch} if epoch else {})
    )
    np.testing.assert_array_equal(run.metrics["estep/kl"], [math.nan, 1.0])
    assert {"train/reward", "train/cost", "train/cumulative_cost", "steps", "wall_seconds"} < run.metrics.keys()


def test_scale_of_rewards(runs):
    write_run(runs / "a", [-10.0, *[0.0] * 3, 6.0], [0.0] * 5)
    write_run(runs / "b", [-30.0, *[0.0] * 3, 4.0], [0.0] * 5, algorithm="sac-lag")
    scale = study_of(runs).reward_range("Point-Goal")
    assert (scale.untrained, scale.best) == (-20.0, 6.0)
    assert scale.normalized(-7.0) == pytest.approx(0.5) and scale.at(0.5) == pytest.approx(-7.0)
