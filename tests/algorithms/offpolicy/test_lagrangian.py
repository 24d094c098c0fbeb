"""The penalised objective and the multipliers' two sources of cost."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from offpolicy_batch import ENVS, KEY, LENGTH, TINY, WITH_NOISE, batch, rollout, spec
from samples import sample_of

from cvpo.algorithms.offpolicy.critics import Units
from cvpo.algorithms.offpolicy.lagrangian import MultiplierConfig, constrained, make_penalty
from cvpo.algorithms.offpolicy.sac import Config
from cvpo.algorithms.registry import ALGORITHMS
from cvpo.algorithms.shared.returns import threshold_factor
from cvpo.presets import make_config

UNITS = Units(jnp.zeros(2), jnp.ones(2), jnp.zeros(2), jnp.ones(2))
CONFIG = {
    "safety_margin": 0.0,
    "envs": ENVS,
    "multiplier_kp": 0.5,
    "multiplier_ki": 0.1,
    "multiplier_kd": 0.0,
    "multiplier_smoothing": 0.0,
}


def penalty_of(*limits, **options):
    return make_penalty(MultiplierConfig(**CONFIG | options), spec(*limits))


def test_objective_by_hand():
    q_reward, q_costs = jnp.array([1.0, 4.0]), jnp.array([[1.0, 2.0], [0.5, 0.0]])
    for normalize_loss, divisor in ((True, 1 + 2 + 4), (False, 1)):
        penalty = penalty_of(1.0, 1.0, normalize_loss=normalize_loss)
        state = penalty.init()
        np.testing.assert_allclose(penalty.objective(state, q_reward, q_costs), q_reward)
        state = state._replace(multipliers=jnp.array([2.0, 4.0]))
        np.testing.assert_allclose(penalty.objective(state, q_reward, q_costs), np.array([1 - 4, 4 - 4]) / divisor)


def test_a_method_without_multipliers_has_no_constraint():
    config = Config(envs=ENVS)
    penalty = make_penalty(config, constrained(config, spec(1.0, 2.0)))
    state = penalty.observe(penalty.init(), rollout(50.0, 60.0), WITH_NOISE)
    np.testing.assert_array_equal(penalty.objective(state, jnp.array([1.0]), jnp.zeros((0, 1))), [1.0])


def test_measured_costs_drive_the_multipliers():
    penalty = penalty_of(10.0, np.inf)
    # excess 1/5 of the cost, then -1/10 of the limit: 0.5·0.2 + 0.1·0.2, then 0.5·(-0.1) + 0.1·(0.2 - 0.1) < 0
    state = penalty.observe(penalty.init(), rollout(12.5, 99.0), WITH_NOISE)
    np.testing.assert_allclose(state.multipliers, [0.12, 0.0], rtol=1e-5)
    assert penalty.observe_critic(state, UNITS, jnp.full((2, 5), 1e6)) is state
    state = penalty.observe(state, rollout(9.0, 99.0), WITH_NOISE)
    np.testing.assert_allclose(state.multipliers, 0.0)
    np.testing.assert_allclose(state.controller.integral, [0.01, 0.0], rtol=1e-4)


@pytest.mark.parametrize("policy_delay", [1, 2])
def test_an_epoch_of_the_critics_costs_acts_like_a_measured_one(policy_delay):
    """The gains mean the same for both: an epoch of policy steps at a steady Q_c integrates as one measurement does."""
    config = MultiplierConfig(**CONFIG, cost_signal="critic", update_ratio=1.0)
    penalty = make_penalty(config, spec(10.0), policy_delay)
    q_costs = jnp.full((1, 5), 12.5 * threshold_factor(LENGTH, config.cost_discount(LENGTH)))
    state = penalty.observe(penalty.init(), rollout(1000.0), WITH_NOISE)
    np.testing.assert_array_equal(state.multipliers, 0.0)
    for _ in range(LENGTH * ENVS // policy_delay):
        state = penalty.observe_critic(state, UNITS, q_costs)
    np.testing.assert_allclose(state.multipliers, [0.12], rtol=1e-4)


def test_metrics_name_each_constraint():
    penalty = penalty_of(10.0, 5.0)
    info = penalty.info(penalty.init()._replace(multipliers=jnp.array([1.0, 2.0])))
    assert {name: float(value) for name, value in info.items()} == {"policy/multiplier_0": 1, "policy/multiplier_1": 2}
    assert list(penalty_of(10.0).info(penalty_of(10.0).init())) == ["policy/multiplier"]


@pytest.mark.parametrize("name", ["sac", "sac-lag", "td3", "td3-lag", "ddpg", "ddpg-lag"])
def test_discrete_actions_are_refused_with_a_remedy(name):
    method = name.split("-")[0].upper()
    with pytest.raises(ValueError, match=rf"{method} needs continuous actions.*Discrete space of 2.*cvpo"):
        ALGORITHMS[name].make(make_config(name), spec(1.0, discrete=True))


@pytest.mark.parametrize("name", ["sac", "sac-lag", "td3", "td3-lag", "ddpg", "ddpg-lag"])
def test_presets_and_twins(name):
    paper = make_config(name, "paper")
    assert isinstance(paper, MultiplierConfig) == name.endswith("-lag") == ALGORITHMS[name].constrained
    assert paper.batch_size == 300
    if isinstance(paper, MultiplierConfig):
        assert (paper.cost_signal, make_config(name).cost_signal) == ("critic", "measured")


@pytest.mark.parametrize("name", ["sac-lag", "td3-lag", "ddpg-lag"])
def test_a_learners_state_keeps_its_types(name):
    """Otherwise the second update of a run would be compiled anew."""
    algorithm = ALGORITHMS[name].make(make_config(name, overrides=TINY), spec(1.0))
    start = jax.eval_shape(algorithm.init, KEY)
    observed = jax.eval_shape(algorithm.observe, start, rollout(5.0), WITH_NOISE)
    after, _ = jax.eval_shape(algorithm.update, observed, sample_of(batch()), KEY)
    types = [[(x.shape, x.dtype, x.weak_type) for x in jax.tree.leaves(state)] for state in (start, after)]
    assert types[0] == types[1]


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match=r"multiplier_ki must be >= 0, got -1"):
        MultiplierConfig(multiplier_ki=-1)
    with pytest.raises(ValueError, match=r"multiplier_smoothing must be between 0.* and 1.*, got 2"):
        MultiplierConfig(multiplier_smoothing=2)


def test_retrace_needs_sequences_that_fit_a_batch():
    with pytest.raises(ValueError, match=r"n_step <= batch_size = 64, got n_step = 65"):
        MultiplierConfig(retrace=True, n_step=65, batch_size=64)
