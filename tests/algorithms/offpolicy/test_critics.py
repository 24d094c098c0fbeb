"""The critics' networks against plain products, and what they learn against targets summed by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from offpolicy_batch import KEY, TINY, batch, spec

from cvpo.algorithms.offpolicy.critics import CriticConfig, make_critics
from cvpo.algorithms.shared import networks

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
