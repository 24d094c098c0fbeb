"""The largest cost reduction is what the E-step attains when the cost is all that counts."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cvpo.algorithms.cvpo.estep.max_cost_reduction import max_cost_reduction
from cvpo.algorithms.cvpo.estep.solve import solve_estep


def uniform(values):
    return jnp.full(values.shape, -jnp.log(values.shape[-1]))


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**31), skew=st.floats(0.0, 2.0), kl=st.floats(0.01, 0.3), unit=st.floats(1e-3, 1e3))
def test_it_is_the_least_mean_within_the_ball(seed, skew, kl, unit):
    normal = np.random.default_rng(seed).normal(size=(32, 16))
    values = jnp.asarray(unit * (np.exp(skew * normal) if skew > 0.1 else normal), jnp.float32)
    best = solve_estep(-values, jnp.zeros((1, 32, 16)), jnp.inf, kl)
    lowered = float(values.mean() - (best.weights * values).sum(-1).mean())
    found = float(max_cost_reduction(values, uniform(values), kl))
    assert found <= lowered * (1 + 1e-4)
    assert found == pytest.approx(lowered, rel=0.03)


def test_normal_values_can_be_lowered_by_their_deviation_times_the_balls_radius():
    values = jnp.asarray(np.random.default_rng(0).normal(size=(4000, 64)), jnp.float32)
    assert float(max_cost_reduction(values, uniform(values), 0.02)) == pytest.approx(0.2, rel=0.03)


def test_rare_bad_actions_can_only_be_avoided():
    values = jnp.zeros((10, 16)).at[:, 0].set(16.0)  # a mean of 1
    assert 0.9 < float(max_cost_reduction(values, uniform(values), 0.1)) <= 1.0 + 1e-6  # float32


def test_nothing_can_be_done_where_all_actions_are_alike():
    values = jnp.full((10, 16), 3.0)
    assert float(max_cost_reduction(values, uniform(values), 0.1)) == 0.0
