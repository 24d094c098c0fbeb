"""Bounds and intervals: they hold as often as they say, also for skewed costs with rare disasters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cvpo.policies import statistics

LARGEST, LEVEL, SAMPLES = 400.0, 0.95, 400


def scattered(rng, n):
    """Costs as trained policies have them: a mean near 8, a long tail."""
    return np.minimum(rng.negative_binomial(1.2, 1.2 / 9.4, n), LARGEST).astype(float)


def disaster(rng, n):
    """Nearly always 2, in one episode of 200 everything."""
    return np.where(rng.random(n) < 0.005, LARGEST, 2.0)


def coin(rng, n):
    return LARGEST * (rng.random(n) < 0.4)


COSTS = {"scattered": (scattered, 8.2), "disaster": (disaster, 3.99), "coin": (coin, 160.0)}
# nothing truncates these in practice: negative_binomial(1.2, 1.2/9.4) has mean 8.2, and P(> 400) < 1e-20
# three standard errors of a share of SAMPLES
TOLERANCE = 3 * np.sqrt(LEVEL * (1 - LEVEL) / SAMPLES)


@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("name", COSTS)
def test_the_bounds_of_the_mean_hold_at_their_level(name, n):
    draw, mean = COSTS[name]
    rng = np.random.default_rng(7)
    samples = [draw(rng, n) for _ in range(SAMPLES)]
    above = np.mean([statistics.mean_upper_bound(x, LARGEST, LEVEL) >= mean for x in samples])
    below = np.mean([statistics.mean_lower_bound(x, LARGEST, LEVEL) <= mean for x in samples])
    assert min(above, below) >= LEVEL - TOLERANCE


def test_an_interval_that_trusts_the_spread_does_not_hold_for_rare_disasters():
    """Why the bound is another: the same test finds Student's interval wanting."""
    rng = np.random.default_rng(7)
    samples = [disaster(rng, 200) for _ in range(SAMPLES)]
    covered = np.mean([statistics.mean_interval(x, 2 * LEVEL - 1).high >= COSTS["disaster"][1] for x in samples])
    assert covered < LEVEL - 5 * TOLERANCE


def test_the_bound_is_near_what_any_bound_can_say():
    """A disaster with a chance of 3/n goes unseen in one sample of twenty: no bound can be below what it adds."""
    x = scattered(np.random.default_rng(0), 1000)
    bound = statistics.mean_upper_bound(x, LARGEST, LEVEL)
    unseen = LARGEST * 3 / len(x)
    assert x.mean() + unseen < bound < x.mean() + 2 * unseen
    # and with bounds that fit the costs it is near Student's
    fitting = statistics.mean_upper_bound(x, x.max(), LEVEL)
    student = statistics.mean_interval(x, 2 * LEVEL - 1).high
    assert student < fitting < x.mean() + 2 * (student - x.mean())


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=25), st.floats(0.5, 0.999))
def test_the_bounds_are_around_the_mean_and_within_the_range(values, level):
    x = np.array(values)
    low, high = statistics.mean_lower_bound(x, 1.0, level), statistics.mean_upper_bound(x, 1.0, level)
    assert -1e-9 <= low <= x.mean() + 1e-9 <= high + 2e-9 <= 1 + 3e-9
    assert statistics.mean_upper_bound(x, 1.0, 1 - 0.5 * (1 - level)) >= high - 1e-9  # more sure, less said


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(1, 60), st.floats(0.6, 0.99))
def test_clopper_pearson_is_scipys(successes, failures, level):
    trials = successes + failures
    ours = statistics.share_interval(successes, trials, level)
    exact = stats.binomtest(successes, trials).proportion_ci(level, "exact")
    np.testing.assert_allclose(ours, exact, atol=1e-9)


def test_clopper_pearson_covers():
    for p in (0.01, 0.1, 0.5):
        k = np.arange(51)
        chance = stats.binom.pmf(k, 50, p)
        covers = [low <= p <= high for low, high in (statistics.share_interval(i, 50, 0.9) for i in k)]
        assert chance[covers].sum() >= 0.9


def test_cvar_is_the_mean_of_the_worst():
    x = np.arange(10.0)
    assert statistics.cvar(x, 0.9) == 9.0
    assert statistics.cvar(x, 0.7) == pytest.approx(8.0)
    assert statistics.cvar(x, 0.75) == pytest.approx((9 + 8 + 0.5 * 7) / 2.5)
    assert statistics.cvar(x, 1e-9) == pytest.approx(4.5)


def test_the_bound_of_cvar_holds():
    rng = np.random.default_rng(3)
    true = statistics.cvar(scattered(rng, 2_000_000), 0.9)
    bounds = np.array([statistics.cvar_upper_bound(scattered(rng, 500), 0.9, LARGEST, LEVEL) for _ in range(100)])
    assert np.mean(bounds >= true) >= LEVEL - 3 * np.sqrt(LEVEL * (1 - LEVEL) / 100)
    assert np.median(bounds) < LARGEST / 3  # and says something


def test_values_outside_the_range_are_refused():
    with pytest.raises(ValueError, match="between 0 and 1, got 0 to 2"):
        statistics.mean_upper_bound(np.array([0.0, 2.0]), 1.0, 0.95)
