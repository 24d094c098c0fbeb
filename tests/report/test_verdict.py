"""Who is best within the limit, and how sure that is."""

import math

import numpy as np
import pytest
from made_runs import write_run
from scipy import stats

from cvpo.report.data import notes
from cvpo.report.load import load_runs
from cvpo.report.study import Study
from cvpo.report.verdict import clearly_more, estimate, judge, probability_within


def study_of(runs):
    return Study.of(load_runs([runs])[0])


def flat(path, reward, cost, **options):
    return write_run(path, [reward] * 5, np.repeat(np.atleast_2d(cost).T, 5, axis=1), **options)


def test_the_best_is_the_highest_reward_within_the_limit(runs):
    flat(runs / "a", 5.0, 9.0)
    flat(runs / "b", 7.0, 9.9, algorithm="sac-lag")
    flat(runs / "c", 30.0, 10.1, algorithm="trpo")
    verdict = judge(study_of(runs), "Point-Goal")
    assert verdict.best.method == "SAC-Lag"
    assert [item.within for item in verdict.judged] == [True, True, False]


def test_all_limits_count(runs):
    flat(runs / "a", 5.0, [1.0, 1.0], limits=(2.0, 2.0))
    flat(runs / "b", 7.0, [1.0, 3.0], limits=(2.0, 2.0), algorithm="sac-lag")
    assert judge(study_of(runs), "Point-Goal").best.method == "CVPO"


def test_no_method_within_the_limit_is_no_best(runs):
    flat(runs / "a", 5.0, 11.0)
    verdict = judge(study_of(runs), "Point-Goal")
    assert verdict.best is None and verdict.rivals == []


def test_without_a_limit_the_best_has_the_highest_reward(runs):
    flat(runs / "a", 5.0, 11.0, limits=("Infinity",))
    flat(runs / "b", 6.0, 99.0, limits=("Infinity",), algorithm="trpo")
    assert judge(study_of(runs), "Point-Goal").best.method == "TRPO"


def test_intervals_and_probabilities_are_students(runs):
    values = np.array([3.0, 5.0, 4.0, 8.0])
    low, high = stats.t.interval(0.95, 3, loc=5.0, scale=stats.sem(values))
    assert estimate(values) == pytest.approx((5.0, low, high))
    expected = stats.ttest_1samp(values, 6.0, alternative="less").pvalue
    assert probability_within(values, 6.0) == pytest.approx(1.0 - expected)


def test_one_seed_tells_nothing_of_the_others():
    assert math.isnan(estimate(np.array([3.0])).low)
    assert math.isnan(probability_within(np.array([3.0]), 10.0))


def test_the_probability_of_two_limits_is_no_larger_than_either(runs):
    for seed, costs in enumerate([(1.0, 4.0), (2.0, 2.0), (3.0, 3.0)]):
        flat(runs / str(seed), 5.0, costs, limits=(3.0, 4.0), seed=seed)
    (item,) = judge(study_of(runs), "Point-Goal").judged
    either = [probability_within(cost, limit) for cost, limit in zip(item.costs, (3.0, 4.0), strict=True)]
    assert item.probability == pytest.approx(sum(either) - 1.0) and item.probability < min(either)


def test_rivals_are_those_that_a_test_does_not_tell_apart(runs):
    rewards = {"cvpo": (10.0, 11.0, 12.0), "sac-lag": (9.0, 10.0, 12.0), "cpo": (1.0, 2.0, 3.0)}
    for algorithm, values in rewards.items():
        for seed, reward in enumerate(values):
            flat(runs / f"{algorithm}-{seed}", reward, 1.0, algorithm=algorithm, seed=seed)
    verdict = judge(study_of(runs), "Point-Goal")
    assert verdict.best.method == "CVPO" and [item.method for item in verdict.rivals] == ["SAC-Lag"]


def test_clearly_more_is_welchs_test():
    random = np.random.default_rng(0)
    for _ in range(50):
        a, b = random.normal(0.8, 1.0, 5), random.normal(0.0, 2.0, 4)
        expected = stats.ttest_ind(a, b, equal_var=False, alternative="greater").pvalue <= 0.05
        assert clearly_more(a, b) == expected
    assert not clearly_more(np.array([9.0]), np.array([1.0, 1.1]))


def test_a_run_without_a_reward_is_not_judged(runs):
    write_run(runs / "a", ["NaN"] * 3, [1.0] * 3)
    assert judge(study_of(runs), "Point-Goal").judged == []


def test_notes_say_what_a_reader_should_know(runs):
    flat(runs / "a", 5.0, 1.0, seed=3)
    flat(runs / "b", 5.0, 1.0, seed=3)
    write_run(runs / "c", [1.0], [1.0], seed=4, planned_epochs=5)
    write_run(runs / "d", [1.0] * 2, [1.0] * 2, algorithm="trpo", planned_epochs=5)
    equal, behind, shorter = notes(study_of(runs))
    assert "CVPO: 2 runs have seed 3" in equal
    assert "CVPO: 1 of 3 runs ended, or are, far behind" in behind
    assert "TRPO has fewer steps than the others" in shorter
