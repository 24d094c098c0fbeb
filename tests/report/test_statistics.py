"""Statistics against hand-computed numbers, SciPy and invariants."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import trim_mean

from cvpo.report import statistics

finite = st.floats(-1e6, 1e6)
nan = math.nan


def test_curves_meet_on_all_their_steps_or_on_an_even_grid():
    first, second = np.array([100.0, 200.0, 300.0]), np.array([150.0, 300.0])
    assert statistics.common_grid([first, second]).tolist() == [100, 150, 200, 300]
    assert statistics.common_grid([first, second], points=3).tolist() == [100, 200, 300]


def test_a_curve_is_straight_between_what_was_measured_and_nowhere_else():
    grid = np.array([50.0, 100.0, 150.0, 200.0, 300.0, 400.0])
    x, y = np.array([100.0, 200.0, 250.0, 300.0]), np.array([1.0, 3.0, nan, 5.0])
    found = statistics.on_grid(grid, x, y)
    np.testing.assert_array_equal(found, [nan, 1.0, 2.0, 3.0, 5.0, nan])


def test_of_points_at_one_place_the_last_measured_counts():
    x, y = np.array([1.0, 1.0, 1.0, 2.0]), np.array([5.0, 7.0, nan, 9.0])
    assert statistics.on_grid(np.array([1.0, 1.5]), x, y).tolist() == [7.0, 8.0]


def test_nothing_measured_is_no_curve():
    assert np.isnan(statistics.on_grid(np.array([1.0, 2.0]), np.array([1.0]), np.array([nan]))).all()


def test_mean_and_deviation_need_half_of_the_runs():
    curves = np.array([[1.0, 2.0, nan], [3.0, nan, nan], [5.0, nan, nan], [7.0, 6.0, 9.0]])
    mean, deviation = statistics.mean_and_deviation(curves)
    np.testing.assert_allclose(mean, [4.0, 4.0, nan])
    np.testing.assert_allclose(deviation, [math.sqrt(5.0), 2.0, nan])


def test_five_numbers():
    values = np.array([9.0, 1.0, nan, 3.0, 5.0, 7.0])
    assert statistics.five_numbers(values).tolist() == [1.0, 3.0, 5.0, 7.0, 9.0]
    assert np.isnan(statistics.five_numbers(np.array([nan]))).all()


def test_interquartile_mean_by_hand():
    # of eight, two are cut at either end
    assert statistics.interquartile_mean(np.array([100.0, 1, 2, 3, 4, 5, 6, -50])) == pytest.approx(3.5)


@given(arrays(float, st.integers(1, 30), elements=finite))
@settings(deadline=None, max_examples=50)
def test_interquartile_mean_is_scipys_trimmed_mean(values):
    assert statistics.interquartile_mean(values) == pytest.approx(trim_mean(values, 0.25), rel=1e-9, abs=1e-6)


@given(st.lists(arrays(float, st.integers(1, 8), elements=finite), min_size=1, max_size=4))
@settings(deadline=None, max_examples=30)
def test_bootstrap_interval_lies_within_the_values(strata):
    low, high = statistics.bootstrap_interval(strata, resamples=200)
    values = np.concatenate(strata)
    slack = 1e-9 * np.abs(values).max()
    assert values.min() - slack <= low <= high <= values.max() + slack


def test_bootstrap_interval_covers_what_it_claims():
    random = np.random.default_rng(1)
    samples = random.normal(3.0, 1.0, (200, 20))
    intervals = [statistics.bootstrap_interval([sample], resamples=300) for sample in samples]
    covered = np.mean([low <= 3.0 <= high for low, high in intervals])
    assert 0.88 <= covered <= 0.99  # nominal 0.95; the percentile interval of 20 values is a little narrow


def test_bootstrap_is_stratified():
    # Were all values drawn together, the share of either task would vary and so would the mean.
    assert statistics.bootstrap_interval([np.zeros(5), np.ones(5)]) == (0.5, 0.5)


def test_trailing_mean_by_hand():
    x, y = np.array([10.0, 20.0, 30.0, 40.0]), np.array([1.0, nan, 3.0, 5.0])
    np.testing.assert_array_equal(statistics.trailing_mean(x, y, 20.0), [1.0, 1.0, 3.0, 4.0])
    np.testing.assert_array_equal(statistics.trailing_mean(x, y, 5.0), [1.0, nan, 3.0, 5.0])


def test_cost_to_reach_is_what_was_paid_by_then():
    cost, reward = np.array([5.0, 9.0, 12.0, 20.0]), np.array([0.0, 4.0, nan, 8.0])
    assert statistics.cost_to_reach(cost, reward, 4.0) == 9.0
    assert statistics.cost_to_reach(cost, reward, 5.0) == 20.0
    assert statistics.cost_to_reach(cost, reward, 9.0) == math.inf


def test_what_was_not_measured_has_no_mean():
    assert math.isnan(statistics.mean(np.array([nan]))) and math.isnan(statistics.deviation(np.array([])))
    assert statistics.mean(np.array([1.0, nan, 3.0])) == 2.0
    assert statistics.deviation(np.array([1.0, nan, 3.0])) == 1.0
