"""What the on-policy methods share: policies, value functions, advantages and the penalty."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from onpolicy_rollout import ENVS, LENGTH, play, spec
from scipy import stats

from cvpo.algorithms.base import Spec, Transition
from cvpo.algorithms.onpolicy import cpo, ppo, trpo
from cvpo.algorithms.onpolicy.iteration import Batch, make_algorithm, standardize
from cvpo.algorithms.onpolicy.lagrangian import penalized_advantage
from cvpo.algorithms.onpolicy.policy import PolicyConfig, make_policy
from cvpo.algorithms.onpolicy.values import make_values, minibatches, rescale
from cvpo.algorithms.shared.noise import draw_noise
from cvpo.algorithms.shared.pid import pid_init

CONFIG = PolicyConfig(hidden=(16,))
KEY = jax.random.key(0)


# The policy ---------------------------------------------------------------------------------------------------------


def test_the_density_of_a_continuous_policy_is_that_of_independent_normals():
    policy = make_policy(CONFIG, Spec(3, 2, False, (), 10))
    params = policy.init(KEY)._replace(log_scale=jnp.array([-0.5, 0.3]))
    obs, action = jax.random.normal(KEY, (5, 3)), jax.random.normal(jax.random.key(1), (5, 2))
    distribution = policy.distribution(params, obs)
    scale = np.exp([-0.5, 0.3]) + 1e-3
    expected = stats.norm.logpdf(action, distribution.mean, scale).sum(-1)
    np.testing.assert_allclose(policy.log_prob(distribution, action), expected, rtol=1e-5)


@pytest.mark.parametrize("discrete", [False, True])
def test_acting_reports_the_density_of_the_action_drawn(discrete):
    task = Spec(3, 4, discrete, (), 10)
    policy = make_policy(CONFIG, task)
    params = policy.init(KEY)
    obs = jax.random.normal(KEY, (6, 3))
    distribution = policy.distribution(params, obs)
    for noise in (None, draw_noise(task, KEY, (6,))):
        action, log_prob = policy.act(params, obs, noise)
        np.testing.assert_allclose(log_prob, policy.log_prob(distribution, action), rtol=1e-6)
    best, _ = policy.act(params, obs, None)
    if discrete:
        np.testing.assert_array_equal(best, distribution.logits.argmax(-1))
    else:
        np.testing.assert_array_equal(best, distribution.mean)


# The value functions ------------------------------------------------------------------------------------------------


def test_rescaling_changes_the_units_but_not_the_values():
    values = make_values(CONFIG, spec(1.0))
    obs = jax.random.normal(KEY, (50, 1))
    first = rescale(jax.jit(values.init)(KEY), jnp.stack([jnp.linspace(-900, 300, 50), jnp.linspace(0, 1, 50)]))
    second = rescale(first, jnp.stack([jnp.linspace(0, 10, 50), jnp.zeros(50)]))
    np.testing.assert_allclose(values.predict(second, obs), values.predict(first, obs), rtol=1e-4, atol=1e-2)
    assert second.mean[0] == pytest.approx(5.0)
    assert second.scale[1] == pytest.approx(0.9 * first.scale[1])  # falls slowly


def test_values_of_any_size_are_learned():
    config = PolicyConfig(hidden=(32, 32), minibatch_size=64, value_epochs=40, value_learning_rate=3e-3)
    values = make_values(config, spec(1.0))
    obs = jnp.linspace(-1, 1, 512)[:, None]
    targets = jnp.stack([5000 + 2000 * jnp.sin(3 * obs[:, 0]), 0.02 * obs[:, 0] ** 2])
    fit = jax.jit(values.fit)
    state = jax.jit(values.init)(KEY)
    for i in range(3):
        state, errors = fit(state, obs, targets, jax.random.key(i))
    relative = np.asarray(((values.predict(state, obs) - targets) ** 2).mean(1) / targets.var(1))
    assert np.all(relative < 0.02)
    np.testing.assert_allclose(errors, relative, atol=0.01)  # what is logged is the fraction of the variance left


def test_a_clipped_value_stops_near_its_bound():
    obs = jnp.linspace(-1, 1, 256)[:, None]
    targets = 3.0 * obs.T

    def mean_change(value_clip: float | None) -> float:
        config = PolicyConfig(hidden=(32,), minibatch_size=64, value_epochs=40, value_clip=value_clip)
        values = make_values(config, spec())
        start = rescale(jax.jit(values.init)(KEY), targets)
        end, _ = jax.jit(values.fit)(start, obs, targets, KEY)
        return float(jnp.abs((values.predict(end, obs) - values.predict(start, obs)) / end.scale[0]).mean())

    assert mean_change(None) > 0.7  # the targets' mean distance from their mean is 0.87 deviations
    assert mean_change(0.1) < 0.2  # beyond 0.1 a value's own gradient is zero; its neighbours may still carry it


# The iteration ------------------------------------------------------------------------------------------------------


def batch_of(rollout: Transition, config: PolicyConfig, task: Spec, value: float) -> Batch:
    """The batch that the policy's improvement sees, when all values are `value`."""
    algorithm = make_algorithm(
        config,
        task,
        make_policy(config, task),
        improve=lambda params, memory, batch, key: (params, batch, {}),
        init_memory=lambda params: (),
    )
    state = jax.jit(algorithm.init)(KEY)
    values = state.values._replace(
        params=jax.tree.map(jnp.zeros_like, state.values.params), mean=jnp.full(1 + task.num_costs, value)
    )
    return jax.jit(algorithm.update)(state._replace(values=values), rollout, KEY)[0].memory


def test_advantages_by_hand_with_a_termination_and_a_cut():
    # One environment, γ = 0.5, λ = 0.5, every value 10. Step 1 terminates; step 3 is cut by time and bootstraps.
    #   δ = r + γ·10·(not terminated) - 10 = (-4, -8, -2, -1)
    #   A = (-4 + ¼·(-8), -8, -2 + ¼·(-1), -1) = (-6, -8, -2.25, -1)
    rollout = Transition(
        obs=jnp.zeros((4, 1, 1)),
        action=jnp.zeros((4, 1, 1)),
        log_prob=jnp.zeros((4, 1)),
        reward=jnp.array([[1.0], [2.0], [3.0], [4.0]]),
        costs=jnp.array([[1.0], [2.0], [3.0], [4.0]])[..., None],
        next_obs=jnp.zeros((4, 1, 1)),
        terminated=jnp.array([[False], [True], [False], [False]]),
        ended=jnp.array([[False], [True], [False], [True]]),
    )
    config = PolicyConfig(hidden=(8,), gamma=0.5, gae_lambda=0.5, cost_gae_lambda=0.0)
    batch = batch_of(rollout, config, spec(1.0), value=10.0)
    advantage = np.array([-6, -8, -2.25, -1])
    np.testing.assert_allclose(batch.advantages[0], (advantage - advantage.mean()) / advantage.std(), rtol=1e-5)
    # The cost's traces are off (λ = 0).
    delta = np.array([-4, -8, -2, -1])
    np.testing.assert_allclose(batch.advantages[1], (delta - delta.mean()) / delta.std(), rtol=1e-5)
    np.testing.assert_allclose(batch.cost_scales, [delta.std()], rtol=1e-5)
    # The first episode, the only one that cannot have been cut, costs 1 + 2.
    np.testing.assert_allclose(batch.episode_costs, [3.0])
    assert batch.episode_length == 2


def test_equal_advantages_become_zero():
    np.testing.assert_allclose(standardize(jnp.full((2, 7), 3.0))[0], np.zeros((2, 7)), atol=1e-6)


def test_minibatches_are_a_shuffle_without_repeats():
    rows = np.asarray(minibatches(KEY, 103, 25))
    assert rows.shape == (4, 25)
    assert len(np.unique(rows)) == 100
    assert not np.array_equal(np.sort(rows.ravel()), rows.ravel())
    assert minibatches(KEY, 7, 25).shape == (1, 7)


METHODS = {
    "ppo": (ppo, ppo.Config),
    "ppo-lag": (ppo, ppo.LagConfig),
    "trpo": (trpo, trpo.Config),
    "trpo-lag": (trpo, trpo.LagConfig),
    "cpo": (cpo, cpo.Config),
}


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_an_update_keeps_the_state_of_one_type_so_that_it_is_compiled_once(name, discrete):
    module, config = METHODS[name]
    algorithm = module.make(config(hidden=(8,)), spec(1.0, discrete=discrete))
    before = jax.eval_shape(algorithm.init, KEY)
    rollout = jax.eval_shape(lambda state: play(algorithm, state, KEY), before)
    after, metrics = jax.eval_shape(algorithm.update, before, rollout, KEY)
    assert jax.tree.structure(before) == jax.tree.structure(after)
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        assert (old.shape, old.dtype, old.weak_type) == (new.shape, new.dtype, new.weak_type)
    assert all(value.shape == () for value in metrics.mean.values())


# The Lagrangian -----------------------------------------------------------------------------------------------------


def lag_batch(costs: list[float]) -> Batch:
    advantages = jnp.array([[1.0, -1.0], [2.0, 0.0], [0.0, 4.0]])[: 1 + len(costs)]
    empty = jnp.zeros((2, 1))
    return Batch(empty, empty, jnp.zeros(2), advantages, jnp.ones(len(costs)), jnp.array(costs), jnp.array(20.0))


def test_the_penalty_by_hand_for_two_constraints():
    # Costs 6 and 4, limits 3 and 3, no margin: excesses of 1/2 and 1/4 of the cost, multipliers 2 and 1 with a gain of
    # 4, so (A - 2·A₁ - A₂) / 4.
    config = ppo.LagConfig(multiplier_kp=4.0, multiplier_ki=0.0, multiplier_kd=0.0, safety_margin=0.0)
    _, advantage, info = penalized_advantage(config, spec(3.0, 3.0), pid_init(2), lag_batch([6.0, 4.0]))
    np.testing.assert_allclose(advantage, [(1 - 4 - 0) / 4, (-1 - 0 - 4) / 4], rtol=1e-6)
    assert (info["update/multiplier_0"], info["update/multiplier_1"]) == (pytest.approx(2.0), pytest.approx(1.0))


def test_an_infinite_limit_is_no_constraint():
    config = ppo.LagConfig()
    _, advantage, info = penalized_advantage(config, spec(np.inf), pid_init(1), lag_batch([50.0]))
    np.testing.assert_array_equal(advantage, [1.0, -1.0])
    assert info["update/multiplier"] == 0


def test_the_integral_lives_on_in_the_controller():
    config = ppo.LagConfig(multiplier_kp=0.0, multiplier_ki=1.0, multiplier_kd=0.0, safety_margin=0.0)
    controller = pid_init(1)
    multipliers = []
    for cost in (12.5, 12.5, 9.0):  # excesses of 0.2, 0.2 and -0.1
        controller, _, info = penalized_advantage(config, spec(10.0), controller, lag_batch([cost]))
        multipliers.append(float(info["update/multiplier"]))
    np.testing.assert_allclose(multipliers, [0.2, 0.4, 0.3], rtol=1e-5)


def test_without_multipliers_the_costs_change_nothing():
    algorithm = ppo.make(ppo.Config(hidden=(8,), value_epochs=1), spec(0.0))
    state = jax.jit(algorithm.init)(KEY)
    rollout = jax.jit(lambda state: play(algorithm, state, KEY))(state)
    update = jax.jit(algorithm.update)
    with_costs, _ = update(state, rollout, KEY)
    without, _ = update(state, rollout._replace(costs=jnp.zeros((LENGTH, ENVS, 1))), KEY)
    jax.tree.map(np.testing.assert_array_equal, with_costs, without)


@pytest.mark.parametrize(
    ("config", "settings", "message"),
    [
        (ppo.Config, {"clip_ratio": 1.5}, "clip_ratio must be between 0.0 and 1.0, got 1.5"),
        (ppo.LagConfig, {"multiplier_ki": -1.0}, "multiplier_ki must be >= 0, got -1.0"),
        (ppo.Config, {"value_clip": 0.0}, "value_clip must be a positive finite number, got 0.0"),
        (trpo.Config, {"kl_limit": 0.0}, "kl_limit must be a positive finite number, got 0.0"),
        (trpo.LagConfig, {"line_search_shrink": 2.0}, "line_search_shrink must be between 0.0 and 1.0, got 2.0"),
        (cpo.Config, {"cg_iterations": 0}, "cg_iterations must be >= 1, got 0"),
    ],
)
def test_settings_out_of_range_are_refused(config, settings, message):
    with pytest.raises(ValueError, match=message):
        config(**settings)
