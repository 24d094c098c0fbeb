"""Constraints on a quantile or a tail: the statistic, and a controller that holds it at the limit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cvpo.algorithms.base import Spec, Transition
from cvpo.algorithms.constraint import measured_cost, parse_constraint
from cvpo.algorithms.cvpo import cost_control
from cvpo.algorithms.offpolicy import lagrangian
from cvpo.errors import BadValue
from cvpo.presets import make_config

LIMIT, EPISODES = 10.0, 5
WITH_NOISE = jnp.zeros(EPISODES, bool)


@settings(deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.floats(0.05, 0.95))
def test_statistics_are_what_they_say(values, q):
    costs = np.array(values, float)[:, None]
    quantile, tail = measured_cost(f"quantile={q!r}", costs), measured_cost(f"cvar={q!r}", costs)
    assert np.mean(costs > quantile) <= 1 - q + 1e-6  # enough episodes are within it
    assert np.mean(costs >= quantile) > 1 - q - 1e-6  # and with any less they would not be
    assert measured_cost("mean", costs) - 1e-6 <= tail <= costs.max() + 1e-6
    assert tail >= quantile - 1e-6
    missing = np.concatenate([costs, np.full((4, 1), np.nan)]).astype(np.float32)
    for name in (f"quantile={q!r}", f"cvar={q!r}", "mean"):
        np.testing.assert_allclose(
            measured_cost(name, jnp.asarray(missing), jnp), measured_cost(name, costs), rtol=1e-4
        )


def test_statistics_of_ten():
    costs = np.arange(10.0)[:, None]
    assert measured_cost("quantile=0.9", costs) == 8.0  # one of ten is above
    assert measured_cost("cvar=0.8", costs) == pytest.approx(8.5)
    assert measured_cost("cvar=0.85", costs) == pytest.approx((9 + 0.5 * 8) / 1.5)


@pytest.mark.parametrize(
    "text", ["quantile=1.5", "quantile=0", "quantile", "cvar=x", "median", "mean=0.5", "mean=", "quantile=nan"]
)
def test_bad_constraints_are_refused(text):
    with pytest.raises(BadValue, match="constraint must be mean, quantile=Q or cvar=Q with Q between 0 and 1"):
        parse_constraint(text)
    for algorithm in ("cvpo", "sac-lag", "ppo-lag"):
        with pytest.raises(BadValue, match="constraint must be"):
            make_config(algorithm, overrides={"constraint": text})


def test_a_critic_knows_of_no_quantile():
    with pytest.raises(BadValue, match="set cost_signal measured"):
        make_config("cvpo", overrides={"constraint": "quantile=0.9", "cost_signal": "critic"})


def rollout(costs: np.ndarray) -> Transition:
    """One step that costs what an episode of the plant does."""
    n = len(costs)
    zeros = jnp.zeros((1, n))
    ended = jnp.ones((1, n), bool)
    obs = jnp.zeros((1, n, 1))
    return Transition(obs, obs, zeros, zeros, jnp.asarray(costs, jnp.float32)[None, :, None], obs, ended, ended)


def plant(rng: np.random.Generator, level: float, count: int) -> np.ndarray:
    """Skewed costs with the mean `level`."""
    return level * rng.gamma(0.8, 1 / 0.8, count)


@pytest.mark.parametrize("constraint", ["mean", "quantile=0.9", "cvar=0.9"])
def test_cvpos_controller_holds_the_statistic_at_the_limit(constraint):
    """A plant whose cost falls by the requested reduction in each epoch, and rises when less is requested."""
    # one update an epoch
    config = make_config("cvpo", overrides={"constraint": constraint, "safety_margin": 0.0, "update_ratio": 0.2})
    spec = Spec(1, 1, False, (LIMIT,), 1)
    measure = jax.jit(
        lambda control, batch: cost_control.measure(config, spec, cost_control.updated(control), batch, WITH_NOISE)
    )
    rng, level = np.random.default_rng(0), 3 * LIMIT
    control, seen = cost_control.start(config, 1), []
    for epoch in range(600):
        costs = plant(rng, level, EPISODES)
        control = measure(control, rollout(costs))
        wanted = float(cost_control.requested_fraction(config, control)[0])
        level *= np.exp(0.05 - 0.2 * max(wanted, -0.25))
        if epoch >= 200:
            seen.append(costs)
    found = measured_cost(constraint, np.concatenate(seen)[:, None])[0]
    assert 0.7 * LIMIT < found < 1.3 * LIMIT
    if constraint != "mean":
        assert np.concatenate(seen).mean() < 0.65 * LIMIT  # a tail at the limit leaves the mean well below it


@pytest.mark.parametrize("constraint", ["mean", "quantile=0.9", "cvar=0.9"])
def test_multipliers_hold_the_statistic_at_the_limit(constraint):
    """A plant that is the dual of a concave trade-off: the cost falls as the multiplier grows."""
    config = make_config("sac-lag", overrides={"constraint": constraint, "multiplier_ki": 0.02})
    penalty = lagrangian.make_penalty(config, Spec(1, 1, False, (LIMIT,), 1))
    observe = jax.jit(penalty.observe)
    rng, state, seen = np.random.default_rng(0), penalty.init(), []
    for epoch in range(600):
        costs = plant(rng, 3 * LIMIT / (1 + float(state.multipliers[0])) ** 2, EPISODES)
        state = observe(state, rollout(costs), WITH_NOISE)
        if epoch >= 200:
            seen.append(costs)
    found = measured_cost(constraint, np.concatenate(seen)[:, None])[0]
    assert 0.7 * LIMIT < found < 1.3 * LIMIT
