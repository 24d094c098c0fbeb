"""The propositions: hand-computed numbers, a reference for Lambert's function, and worst cases searched at random."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import lambertw

from cvpo.algorithms.cvpo.guarantees import (
    decoupled_kl,
    describe_trust_regions,
    lambert_w,
    one_step_robust,
    two_step_kl,
    two_step_robust,
)


def kl(mean_a, cov_a, mean_b, cov_b):
    """KL(a || b) of two normals, from its textbook formula."""
    inverse, step = np.linalg.inv(cov_b), mean_b - mean_a
    log_det = np.linalg.slogdet(cov_b)[1] - np.linalg.slogdet(cov_a)[1]
    return 0.5 * (np.trace(inverse @ cov_a) - len(step) + log_det + step @ inverse @ step)


def test_a_negative_threshold_is_refused():
    with pytest.raises(ValueError, match=r"kl must be >= 0, got -0\.1"):
        two_step_kl(-0.1)


@given(st.floats(1e-6, 300))
@settings(deadline=None, max_examples=200)
def test_lambert_w_agrees_with_scipy(x):
    argument = -math.exp(-1 - 2 * x)
    upper, lower = lambert_w(x)
    # near the branch point the argument has lost digits, and scipy's answer with it
    tolerance = 1e-12 + 1e-15 / x
    assert upper == pytest.approx(lambertw(argument, 0).real, rel=tolerance)
    assert lower == pytest.approx(lambertw(argument, -1).real, rel=tolerance)


@pytest.mark.parametrize("x", [1e-20, 1e-12, 1e-8, 1e-4])
def test_lambert_w_near_its_branch_point(x):
    # W = -1 ± p - p²/3 ± 11 p³/72 with p² = 2 (1 - e^(-2x))
    p = math.sqrt(-2 * math.expm1(-2 * x))
    upper, lower = lambert_w(x)
    assert upper + 1 == pytest.approx(p - p**2 / 3 + 11 * p**3 / 72, abs=p**4 + 1e-15)
    assert lower + 1 == pytest.approx(-p - p**2 / 3 - 11 * p**3 / 72, abs=p**4 + 1e-15)


def test_lambert_w_at_its_branch_point():
    assert lambert_w(0.0) == (-1.0, -1.0)


def test_two_step_kl_is_eight_times_only_in_the_limit():
    assert two_step_kl(0.0) == 0.0
    assert two_step_kl(1e-10) / 1e-10 == pytest.approx(8, abs=1e-3)
    ratios = [two_step_kl(x) / x for x in (1e-8, 1e-6, 1e-4, 1e-2, 1.0)]
    assert ratios == sorted(ratios) and ratios[0] > 8


def test_the_papers_factor_of_eight_is_not_enough():
    kl_estep = 0.1
    kl_mstep = 0.99 * kl_estep / 8
    assert two_step_kl(kl_mstep) > 1.2 * kl_estep
    assert not two_step_robust(kl_mstep, kl_estep) and one_step_robust(kl_mstep, kl_estep)


def scaled_to(limit, move):
    """The largest t with move(t) <= limit, for an increasing divergence."""
    low, high = 0.0, 1.0
    while move(high) < limit:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if move(middle) <= limit else (low, middle)
    return low


@given(st.integers(0, 2**31), st.sampled_from([1, 2, 3]), st.sampled_from([1e-3, 1e-2, 0.3]))
@settings(deadline=None, max_examples=40)
def test_two_step_kl_bounds_two_steps(seed, size, limit):
    """Two steps of exactly `limit` in random directions; the middle policy may as well be standard normal."""
    rng = np.random.default_rng(seed)
    zero, one = np.zeros(size), np.eye(size)

    def normal(t, direction, turn, growth):
        return t * direction, turn @ np.diag(np.exp(t * growth)) @ turn.T

    def random_line():
        turn = np.linalg.qr(rng.normal(size=(size, size)))[0]
        return rng.normal(size=size) * rng.random(), turn, rng.normal(size=size)

    first, last = random_line(), random_line()
    if rng.random() < 0.5:  # opposite moves, the worst kind
        last = (-first[0], first[1], -first[2])
    a = normal(scaled_to(limit, lambda t: kl(*normal(t, *first), zero, one)), *first)
    b = normal(scaled_to(limit, lambda t: kl(zero, one, *normal(t, *last))), *last)
    assert kl(*a, *b) < two_step_kl(limit)


@given(st.integers(0, 2**31), st.floats(1e-5, 0.5), st.floats(1e-5, 0.5))
@settings(deadline=None, max_examples=40)
def test_decoupled_kl_bounds_the_whole(seed, kl_mean, kl_scale):
    rng = np.random.default_rng(seed)
    zero, one = np.zeros(2), np.eye(2)
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    growth = rng.normal(size=2)

    def covariance(t):
        return turn @ np.diag(np.exp(t * growth)) @ turn.T

    new = covariance(scaled_to(kl_scale, lambda t: kl(zero, one, zero, covariance(t))))
    direction = rng.normal(size=2)
    mean = direction * math.sqrt(2 * kl_mean) / np.linalg.norm(direction)
    assert kl(zero, one, mean, new) <= decoupled_kl(kl_mean, kl_scale) * (1 + 1e-9)


def test_decoupled_kl_is_reached_in_one_dimension():
    # the variance shrinks by -1/W₋₁ and the mean moves by √(2 kl_mean) old deviations
    growth = -lambert_w(0.02)[1]
    one = np.eye(1)
    whole = kl(np.zeros(1), one, np.full(1, math.sqrt(0.2)), one / growth)
    assert decoupled_kl(0.1, 0.02) == pytest.approx(whole, rel=1e-9)
    assert decoupled_kl(0.1, 0.0) == pytest.approx(0.1)


def test_describe_names_the_strongest_guarantee():
    assert "any two such M-steps" in describe_trust_regions(1e-3, 1e-4, 0.1, gaussian=True)
    assert "any one such M-step" in describe_trust_regions(0.02, 1e-4, 0.1, gaussian=True)
    assert "no guarantee" in describe_trust_regions(0.1, 1e-4, 0.1, gaussian=True)
    assert "no guarantee" in describe_trust_regions(math.inf, math.inf, 0.1, gaussian=True)
    assert "any one such M-step" in describe_trust_regions(1e-3, 0.0, 0.1, gaussian=False)
    assert "\n" not in describe_trust_regions(1e-3, 1e-4, 0.1, gaussian=True)
