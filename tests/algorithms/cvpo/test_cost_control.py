"""The cost controller alone: by hand, and on simulated plants whose gain, delay and noise it does not know."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cvpo.algorithms.base import Spec, Transition
from cvpo.algorithms.cvpo import cost_control
from cvpo.algorithms.cvpo.config import Config
from cvpo.algorithms.shared import episode_costs

CONFIG = Config()
LIMIT = 10.0
TARGET = (1 - CONFIG.safety_margin) * LIMIT


def spec(*limits: float) -> Spec:
    return Spec(obs_size=1, action_size=1, discrete=False, cost_limits=limits, episode_length=10)


def after(config: Config, task: Spec, control: cost_control.CostControl, cost) -> cost_control.CostControl:
    """The controller after an epoch of one episode, of one step, with noise."""
    step = Transition(*[jnp.zeros((1, 1))] * len(Transition._fields))
    step = step._replace(costs=jnp.asarray(cost, float).reshape(1, 1, -1), ended=jnp.ones((1, 1), bool))
    with_noise = jnp.zeros(1, bool)
    costs, measured = episode_costs.observe(config, control.costs, step, with_noise, config.cost_smoothing)
    return cost_control.respond(config, task, control._replace(costs=costs), measured)


def fractions(costs, *limits: float, config: Config = CONFIG) -> np.ndarray:
    """Requested fractions [steps, m] after each of a sequence of costs [steps, m]."""
    control, out = cost_control.start(config, len(limits)), []
    for cost in costs:
        control = after(config, spec(*limits), control, cost)
        out.append(np.asarray(cost_control.requested_fraction(config, control)))
    return np.stack(out)


def plant(start: float, drift: float, gain: float, delay: int, noise: float, epochs: int, seed: int = 0):
    """Costs [epochs] and requests [epochs] of a policy whose cost changes at a relative rate.

    The reward raises it by `drift` an epoch; a request of 1 lowers it by `gain`, `delay` epochs later. What is measured
    scatters by `noise`.
    """
    rng = np.random.default_rng(seed)
    control, cost, costs, asked = cost_control.start(CONFIG, 1), start, [], [0.0] * (delay + 1)
    for _ in range(epochs):
        measured = max(0.0, cost * (1 + noise * rng.normal()))
        control = after(CONFIG, spec(LIMIT), control, measured)
        asked.append(float(cost_control.requested_fraction(CONFIG, control)[0]))
        cost *= float(np.exp(drift - gain * asked[-1 - delay]))
        costs.append(cost)
    return np.array(costs), np.array(asked[delay + 1 :])


@pytest.mark.parametrize("gain", [0.2, 0.5])
@pytest.mark.parametrize("delay", [0, 2])
@pytest.mark.parametrize("pull", [0.0, 0.2, 0.5, 0.7])
def test_no_steady_offset_and_bounded_overshoot(gain, delay, pull):
    """`pull`: the constant request that holds the cost against the reward."""
    costs, asked = plant(30.0, pull * gain, gain, delay, 0.0, 400)
    assert costs[-100:].mean() == pytest.approx(TARGET, rel=0.1)
    assert costs.min() > 0.2 * TARGET
    assert (asked <= CONFIG.max_reduction + 1e-6).all()


def test_a_request_grows_faster_after_more_updates():
    task, cost = spec(LIMIT), jnp.array([1.5 * LIMIT])
    usual = CONFIG.updates_per_epoch(task.episode_length)
    rollout = Transition(*[jnp.zeros((10, 2))] * len(Transition._fields))._replace(
        costs=jnp.full((10, 2, 1), 0.15 * LIMIT), ended=jnp.zeros((10, 2), bool).at[-1].set(True)
    )
    slow = cost_control.respond(CONFIG, task, cost_control.start(CONFIG, 1), cost)
    for times in (0, 2, 4):
        control = cost_control.start(CONFIG, 1)
        for _ in range(round(times * usual)):
            control = cost_control.updated(control)
        control = cost_control.measure(CONFIG, task, control, rollout, jnp.zeros(2, bool))
        np.testing.assert_allclose(control.integral, times**0.5 * slow.integral, rtol=1e-5)
        np.testing.assert_allclose(control.error, slow.error, rtol=1e-5)
        assert control.updates == 0


def test_the_integral_slows_down_with_the_policy():
    """With a learning rate at a quarter the cost answers at a quarter of its pace, and so must what adds up errors."""
    task, steady = spec(LIMIT), CONFIG.policy_steady_updates
    epoch = CONFIG.updates_per_epoch(task.episode_length)
    for all_updates, pace in ((steady // 2, 1.0), (steady, 1.0), (4 * steady, 0.25)):
        control = cost_control.start(CONFIG, 1)._replace(updates=jnp.array(epoch), all_updates=jnp.array(all_updates))
        assert cost_control.pace_of_policy(CONFIG, task, control) == pytest.approx(pace)
        for cost in (0.0, 0.5 * LIMIT, 3 * LIMIT):
            control = control._replace(integral=jnp.array([0.5]))
            slow = cost_control.respond(CONFIG, task, control, jnp.array([cost]), pace)
            usual = cost_control.respond(CONFIG, task, control, jnp.array([cost]))
            np.testing.assert_allclose(slow.integral - 0.5, pace * (usual.integral - 0.5), rtol=1e-4)
    forever = dataclasses.replace(CONFIG, policy_steady_updates=None)
    assert cost_control.pace_of_policy(forever, task, control) == pytest.approx(1.0)


def test_noise_leaves_the_cost_within_its_limit():
    for seed in range(3):
        for pull in (0.3, 0.7):
            costs, _ = plant(30.0, pull * 0.3, 0.3, 1, 0.5, 400, seed)
            assert costs[-200:].mean() < LIMIT


def test_a_long_violation_leaves_nothing_behind():
    """After 200 epochs at ten times the limit, 16 at no cost and the policy is free to look for reward."""
    asked = fractions([100.0] * 200 + [0.0] * 16, LIMIT)[:, 0]
    assert asked[199] == pytest.approx(CONFIG.max_reduction)
    assert asked[210] < 0.5 * CONFIG.max_reduction
    assert asked[-1] < 0.0
    assert (np.diff(asked[199:]) <= 0).all()


def test_an_epoch_far_above_the_target_adds_less_than_one_near_it():
    """The first epochs of a beginner must not fill the integral."""
    far = cost_control.respond(CONFIG, spec(LIMIT), cost_control.start(CONFIG, 1), jnp.array([20 * LIMIT]))
    near = cost_control.respond(CONFIG, spec(LIMIT), cost_control.start(CONFIG, 1), jnp.array([1.5 * LIMIT]))
    assert 0 < far.integral[0] < near.integral[0]


def test_no_integral_grows_while_several_costs_together_ask_for_the_maximum():
    control = cost_control.start(CONFIG, 2)._replace(integral=jnp.array([1.6, 1.6]))
    after = cost_control.respond(CONFIG, spec(LIMIT, LIMIT), control, jnp.array([12.0, 12.0]))
    np.testing.assert_array_equal(after.integral, control.integral)


def test_it_does_not_sleep():
    """After a long time far below the limit the first epoch above it is answered at once."""
    asked = fractions([0.0] * 100 + [30.0, 30.0], LIMIT)[:, 0]
    assert asked[99] < 0.0 < asked[101]


def test_the_unit_of_costs_does_not_matter():
    costs = np.abs(np.random.default_rng(0).normal(size=(30, 2))).astype(np.float32) * 10
    ours = fractions(costs, 10.0, 4.0)
    for power in (-20, 20):
        np.testing.assert_array_equal(ours, fractions(costs * 2.0**power, 10.0 * 2.0**power, 4.0 * 2.0**power))


def test_a_limit_of_zero():
    asked = fractions([1e-3] * 300, 0.0)[:, 0]
    assert asked[0] > CONFIG.proportional_gain / np.sqrt(1 + CONFIG.proportional_gain**2)
    assert (np.diff(asked) >= 0).all()
    assert asked[-1] == pytest.approx(CONFIG.max_reduction)
    assert fractions([0.0] * 5, 0.0)[-1, 0] == 0.0  # no cost: no reduction is asked for, and no increase allowed


def test_an_infinite_limit_asks_for_nothing():
    assert (fractions([100.0] * 50, np.inf) < 0).all()


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(*[st.floats(0, 1e3)] * 3), min_size=1, max_size=30))
def test_several_requests_share_what_one_may_have(costs):
    asked = np.maximum(fractions(costs, 1.0, 10.0, 0.0)[-1], 0.0)
    assert np.sqrt((asked**2).sum()) <= CONFIG.max_reduction * (1 + 1e-5)
