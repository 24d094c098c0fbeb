"""The critics' networks against plain products, and what they learn against targets summed by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from offpolicy_batch import KEY, TINY, batch, spec

from cvpo.algorithms.offpolicy.critics import CriticConfig, make_critics
from cvpo.algorithms.shared import networks
from cvpo.errors import BadValue
from cvpo.presets import make_config

GAMMA = 0.5


@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_critics_value_is_the_plain_product(layer_norm):
    """One row of state and clipped action after the other through each network, in NumPy."""
    params = networks.critics_init(KEY, 2, 3, 2, (8, 5))
    obs = np.asarray(jax.random.normal(KEY, (4, 3)))
    actions = 2 * np.asarray(jax.random.normal(jax.random.key(1), (4, 6, 2)))
    values = networks.critics_apply(params, jnp.asarray(obs), jnp.asarray(actions), layer_norm)
    for member, b, k in np.ndindex(2, 4, 6):
        x = np.concatenate([obs[b], np.clip(actions[b, k], -1, 1)])
        for weight, bias in params[member][:-1]:
            x = x @ np.asarray(weight) + np.asarray(bias)
            x = np.maximum((x - x.mean()) / np.sqrt(x.var() + 1e-5) if layer_norm else x, 0)
        weight, bias = params[member][-1]
        assert values[member, b, k] == pytest.approx(float((x @ np.asarray(weight) + np.asarray(bias))[0]), abs=1e-5)


def test_critics_learn_n_step_sums_that_stop_where_an_episode_ends():
    """At γ = ½; the state after step i is worth 8 (i + 1) in reward and 16 (i + 1) in cost."""
    steps = batch(shape=(4, 3))
    rewards = jnp.broadcast_to(jnp.array([0.0, 2.0, 4.0]), (4, 3)).at[:, 0].set(jnp.array([1.0, 2.0, 3.0, 4.0]))
    costs = jnp.broadcast_to(jnp.array([0.0, 1.0, 2.0]), (4, 3)).at[:, 0].set(jnp.array([3.0, 2.0, 1.0, 0.0]))
    ended = jnp.zeros((4, 3), bool).at[1:3, 1].set(True).at[3, 0].set(True)
    steps = steps._replace(
        reward=rewards,
        costs=costs[..., None],
        next_obs=jnp.broadcast_to(jnp.arange(1.0, 4.0)[:, None], (4, 3, 3)),
        ended=ended,
        terminated=jnp.zeros((4, 3), bool).at[2, 1].set(True),
    )
    config = CriticConfig(
        **TINY | {"n_step": 3, "retrace": False, "hidden": (32,)},
        gamma=GAMMA,
        cost_gamma=GAMMA,
        critic_learning_rate=3e-3,
    )
    critics = make_critics(config, spec(1.0))

    def update(state, _):
        def expect(params, obs):
            worth = jnp.stack([8 * obs[:, 0], 16 * obs[:, 0]])
            scale = jnp.where(state.units.scale > 0, state.units.scale, 1.0)
            reward, cost = (worth - state.units.level[:, None]) / scale[:, None]
            return jnp.stack([reward, reward + 1.0, cost])  # the smaller of the two reward members counts

        return critics.update(state, steps, expect, None)[0], None

    state, _ = jax.jit(lambda state: jax.lax.scan(update, state, length=2000))(critics.init(KEY))
    outputs = critics.values(state.params, steps.obs[:, 0], steps.action[:, :1])[..., 0]
    reward, cost = state.units.level[:, None] + state.units.scale[:, None] * jnp.stack([outputs[0], outputs[2]])
    # in full; cut by time after two steps; terminated after two; cut by time after one
    np.testing.assert_allclose(reward, [1 + 1 + 1 + 24 / 8, 2 + 1 + 16 / 4, 3 + 1, 4 + 8 / 2], atol=0.05)
    np.testing.assert_allclose(cost, [3 + 0.5 + 0.5 + 48 / 8, 2 + 0.5 + 32 / 4, 1 + 0.5, 0 + 16 / 2], atol=0.05)


def test_costs_look_a_tenth_of_an_episode_ahead_unless_the_limit_is_on_their_value():
    horizons = {length: 1 / (1 - CriticConfig().cost_discount(length)) for length in (20, 100, 400, 1000, 10**6)}
    assert horizons == pytest.approx({20: 10, 100: 10, 400: 40, 1000: 100, 10**6: 100})
    assert CriticConfig(cost_gamma=0.5).cost_discount(400) == 0.5
    assert make_config("cvpo", "paper").cost_discount(400) == 0.99
    assert make_config("cvpo", None, {"cost_signal": "critic", "gamma": 0.9}).cost_discount(400) == 0.9
    with pytest.raises(BadValue, match="cost_gamma must be between 0"):
        CriticConfig(cost_gamma=2.0)


@pytest.mark.parametrize(
    "targets", [{"n_step": 1}, {"n_step": 3, "retrace": False}, {"n_step": 3, "retrace_lambda": 1.0}]
)
def test_rewards_and_costs_have_discount_factors_of_their_own(targets):
    """A reward and a cost of 1 in every step, for ever, are worth 1 / (1 - discount factor)."""
    config = CriticConfig(**TINY | {"hidden": (32,)} | targets, gamma=0.9, cost_gamma=0.5, critic_learning_rate=3e-3)
    critics = make_critics(config, spec(1.0))
    shape = (32,) if config.n_step == 1 else (32, config.n_step)
    steps = batch(1, shape)
    varied = 1 + 0.01 * jnp.asarray(np.random.default_rng(0).normal(size=shape), jnp.float32)
    steps = steps._replace(reward=varied, costs=varied[..., None], ended=jnp.zeros(shape, bool))
    steps = steps._replace(terminated=steps.ended)

    def update(state, _):
        def expect(params, obs):
            return critics.values(params, obs, jnp.zeros((len(obs), 1, 2)))[..., 0]

        return critics.update(state, steps, expect, None)[0], None

    state, _ = jax.jit(lambda state: jax.lax.scan(update, state, length=2000))(critics.init(KEY))
    np.testing.assert_allclose(state.units.level, [10.0, 2.0], rtol=0.02)
