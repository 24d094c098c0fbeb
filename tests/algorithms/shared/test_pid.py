"""The PID multiplier against sequences computed by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cvpo.algorithms.shared.pid import PIDGains, pid_init, pid_update, relative_excess


def run(costs, limit, gains, **options):
    """Multipliers [steps, m] of a sequence of costs [steps, m], controlled in units of cost."""
    costs, limit = jnp.atleast_2d(jnp.array(costs, float)), jnp.atleast_1d(jnp.array(limit, float))
    state, out = pid_init(limit.size), []
    for cost in costs:
        state, multiplier = pid_update(state, cost - limit, gains, **options)
        out.append(multiplier)
    return np.stack(out)


def column(*values):
    return np.array(values)[:, None]


def test_all_three_terms_by_hand():
    # limit 10; excess 2, 5, -4, -1, 1; increase 0, 3, 0, 3, 2; integral Σ 0.1·excess: 0.2, 0.7, 0.3, 0.2, 0.3
    expected = column(2 + 0.2, 5 + 0.7 + 6, 0, -1 + 0.2 + 6, 1 + 0.3 + 4)
    np.testing.assert_allclose(run(column(12, 15, 6, 9, 11), 10, PIDGains(1.0, 0.1, 2.0)), expected, rtol=1e-5)


def test_integral_does_not_wind_up_below_zero():
    # a long time below the limit leaves no debt: the first excess acts at once
    costs = column(*[0.0] * 50, 12.0, 12.0)
    multipliers = run(costs, 10, PIDGains(0.0, 0.1, 0.0))
    np.testing.assert_allclose(multipliers[:50], 0)
    np.testing.assert_allclose(multipliers[50:], column(0.2, 0.4), rtol=1e-5)


def test_integral_does_not_wind_up_above_the_maximum():
    # 100 steps at the maximum, and the first step below the limit already lowers it
    costs = column(*[1000.0] * 100, 5.0)
    multipliers = run(costs, 10, PIDGains(0.0, 0.1, 0.0), maximum=3.0)
    np.testing.assert_allclose(multipliers[99:], column(3.0, 2.5), rtol=1e-5)


def test_integral_gain_alone_is_gradient_ascent():
    np.testing.assert_allclose(
        run(column(11, 13, 7, 2, 12), 10, PIDGains(0.0, 0.5, 0.0)), column(0.5, 2.0, 0.5, 0.0, 1.0), rtol=1e-5
    )


def test_smoothing_tempers_proportional_and_derivative_terms_only():
    # running mean 10, 10 + 0.25·8 = 12: excess 0, 2 and increase 0, 2; the integral sees the cost itself
    multipliers = run(column(10, 18), 10, PIDGains(1.0, 0.1, 3.0), smoothing=0.75)
    np.testing.assert_allclose(multipliers, column(0.0, 2 + 0.8 + 6), rtol=1e-5)


def test_the_relative_excess_by_hand():
    # a quarter below a limit of 10 is the target, 7.5; above the limit the cost itself is the unit
    costs, limits = jnp.array([7.5, 0.0, 10.0, 30.0, 5.0, 0.0, 5.0]), jnp.array([10.0] * 4 + [0.0, 0.0, jnp.inf])
    np.testing.assert_allclose(
        relative_excess(costs, limits, 0.25), [0.0, -0.75, 0.25, 0.75, 1.0, 0.0, -1.0], rtol=1e-6
    )


def test_infinite_limit_means_no_multiplier():
    state = pid_init(1)
    for cost in (5.0, 9.0, 100.0):
        excess = relative_excess(jnp.array([cost]), jnp.array([jnp.inf]), 0.25)
        state, multiplier = pid_update(state, excess, PIDGains(1.0, 0.1, 2.0))
        np.testing.assert_array_equal(multiplier, 0.0)


def test_constraints_do_not_touch_each_other():
    gains = PIDGains(0.5, 0.1, 1.0)
    costs = np.array([[12.0, 3.0, 1.0], [15.0, 9.0, 2.0], [6.0, 1.0, 7.0]])
    together = run(costs, [10.0, 5.0, 2.0], gains)
    for i, limit in enumerate([10.0, 5.0, 2.0]):
        np.testing.assert_allclose(together[:, i], run(costs[:, i : i + 1], limit, gains)[:, 0])


@given(
    st.lists(st.floats(0, 1e4), min_size=1, max_size=20),
    st.floats(0, 100),
    *[st.floats(0, 10)] * 3,
    st.floats(0, 0.99),
    st.floats(0.1, 100),
)
@settings(deadline=None, max_examples=20)
def test_multiplier_stays_between_zero_and_maximum(costs, limit, kp, ki, kd, smoothing, maximum):
    multipliers = run(column(*costs), limit, PIDGains(kp, ki, kd), smoothing=smoothing, maximum=maximum)
    assert ((multipliers >= 0) & (multipliers <= np.float32(maximum))).all()


def test_integral_control_finds_the_multiplier_of_a_known_problem():
    """max 4x - x² s.t. x <= 1 has multiplier 2: the best response is x = (4 - λ) / 2."""
    state, multiplier = pid_init(1), jnp.zeros(1)
    for _ in range(200):
        state, multiplier = pid_update(state, (4 - multiplier) / 2 - 1, PIDGains(0.1, 0.1, 0.1))
    assert float(multiplier[0]) == pytest.approx(2.0, abs=1e-3)
