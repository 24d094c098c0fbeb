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


def test_environments_of_one_name_that_differ_are_never_pooled(runs):
    made = [
        {"made_by": "toys.Bandit", "arguments": {"size": 1}, "action": {"shape": [1]}},
        {"made_by": "toys.Bandit", "arguments": {"size": 2}, "action": {"shape": [2]}},
        {"made_by": "toys.<lambda>", "arguments": {}, "code": "a"},
        {"made_by": "toys.<lambda>", "arguments": {}, "code": "b"},
        None,  # of a version that stored no more than the name
    ]
    for i, environment in enumerate([*made, made[1]]):
        write_run(runs / str(i), [1.0], [0.0], env="Bandit", seed=i, environment=environment)
    study = study_of(runs)
    assert study.run_tasks == [
        "Bandit [toys.Bandit(size=1)]", "Bandit [toys.Bandit(size=2)]", "Bandit [3]", "Bandit [4]",
        "Bandit [toys.Bandit(size=1)]", "Bandit [toys.Bandit(size=2)]",
    ]  # fmt: skip
    assert [len(study.select(task, "CVPO")) for task in study.tasks] == [1, 1, 2, 2]


def test_one_environment_has_its_plain_name(runs):
    for i in range(2):
        write_run(runs / str(i), [1.0], [0.0], env="Bandit", seed=i, environment={"made_by": "toys.Bandit"})
    assert study_of(runs).tasks == ["Bandit"]


def test_equal_seeds_are_found(runs):
    for name, seed, algorithm in (("a", 0, "cvpo"), ("b", 0, "cvpo"), ("c", 1, "cvpo"), ("d", 0, "sac-lag")):
        write_run(runs / name, [1.0], [0.0], seed=seed, algorithm=algorithm)
    assert [[run.path.name for run in group] for group in study_of(runs).equal_seeds()] == [["a", "b"]]


def test_scale_of_rewards(runs):
    write_run(runs / "a", [-10.0, *[0.0] * 3, 6.0], [0.0] * 5)
    write_run(runs / "b", [-30.0, *[0.0] * 3, 4.0], [0.0] * 5, algorithm="sac-lag")
    scale = study_of(runs).reward_range("Point-Goal")
    assert (scale.untrained, scale.best) == (-20.0, 6.0)
    assert scale.normalized(-7.0) == pytest.approx(0.5) and scale.at(0.5) == pytest.approx(-7.0)
