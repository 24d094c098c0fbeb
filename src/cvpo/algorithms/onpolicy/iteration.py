"""The iteration that all on-policy methods share: advantages of a rollout, the policy's improvement, the values' fit.

A method adds one function, `improve`, which betters the policy on a batch. Shapes: H steps of N environments make
B = H·N rows; o observation size; m constraints; the reward and the m costs are one array of signals [1 + m, ...].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from cvpo.algorithms.base import Algorithm, Key, Scalars, Spec, Transition, UpdateMetrics, first_episode_means
from cvpo.algorithms.onpolicy.policy import PolicyConfig, PolicyParams, StochasticPolicy
from cvpo.algorithms.onpolicy.values import ValueState, make_values
from cvpo.algorithms.shared import returns
from cvpo.metric_names import per_cost


class Batch(NamedTuple):
    """A rollout as the policy's improvement needs it."""

    obs: jax.Array  # [B, o]
    action: jax.Array  # [B, d], or [B] if discrete
    log_prob: jax.Array  # [B] under the policy before its improvement
    advantages: jax.Array  # [1 + m, B]: the reward's standardised, the costs' with their mean removed
    episode_costs: jax.Array  # [m] means over episodes
    episode_length: jax.Array  # mean over episodes


class State(NamedTuple):
    policy: PolicyParams
    values: ValueState
    memory: Any  # what the method itself remembers: optimiser, multipliers


# improve(params, memory, batch, key) -> (params, memory, info)
Improve = Callable[[PolicyParams, Any, Batch, Key], tuple[PolicyParams, Any, Scalars]]


def make_algorithm(
    config: PolicyConfig,
    spec: Spec,
    policy: StochasticPolicy,
    improve: Improve,
    init_memory: Callable[[PolicyParams], Any],
) -> Algorithm:
    """The iteration: advantages of a rollout, the policy's improvement on them, the value functions fitted to it."""
    values = make_values(config, spec)
    lambdas = jnp.array([config.gae_lambda] + [config.cost_gae_lambda] * spec.num_costs)

    def init(key: Key) -> State:
        policy_key, value_key = jax.random.split(key)
        params = policy.init(policy_key)
        state = State(params, values.init(value_key), init_memory(params))
        # JAX's weak types would become strong in the first update, and the second would be compiled anew.
        return jax.tree.map(lambda x: jnp.asarray(x, x.dtype), state)

    def advantages(state: ValueState, rollout: Transition) -> tuple[jax.Array, jax.Array]:
        """Advantages and value targets, [1 + m, B] each."""
        shape = rollout.reward.shape
        costs = rollout.costs[..., : spec.num_costs]
        signals = jnp.concatenate([rollout.reward[None], jnp.moveaxis(costs, -1, 0)])
        value, next_value = (
            values.predict(state, obs.reshape(-1, spec.obs_size)).reshape(-1, *shape)
            for obs in (rollout.obs, rollout.next_obs)
        )
        gae = jax.vmap(
            lambda v, next_v, signal, lam: returns.gae(
                v, next_v, signal, rollout.terminated, rollout.ended, config.gamma, lam
            )
        )
        advantage, target = gae(value, next_value, signals, lambdas)
        return advantage.reshape(len(signals), -1), target.reshape(len(signals), -1)

    def update(state: State, rollout: Transition, key: Key) -> tuple[State, UpdateMetrics]:
        policy_key, value_key = jax.random.split(key)
        advantage, target = advantages(state.values, rollout)
        obs = rollout.obs.reshape(-1, spec.obs_size)
        action = rollout.action.reshape(obs.shape[0], *rollout.action.shape[2:])
        batch = Batch(
            obs=obs,
            action=action,
            log_prob=rollout.log_prob.reshape(-1),
            advantages=normalize(advantage),
            episode_costs=first_episode_means(rollout, rollout.costs[..., : spec.num_costs]),
            episode_length=first_episode_means(rollout, jnp.ones_like(rollout.reward)),
        )
        params, memory, info = improve(state.policy, state.memory, batch, policy_key)
        value_state, errors = values.fit(state.values, obs, target, value_key)
        old, new = policy.distribution(state.policy, obs), policy.distribution(params, obs)
        info |= {
            "update/kl": policy.kl(old, new).mean(),
            "update/entropy": new.entropy().mean(),
            "update/value_loss": errors[0],
            **per_cost("update/cost_value_loss", errors[1:]),
        }
        return State(params, value_state, memory), UpdateMetrics(info)

    return Algorithm(init, lambda state: state.policy, policy.act, update)


def normalize(advantages: jax.Array) -> jax.Array:
    """Advantages [1 + m, B] with mean zero, the reward's also of unit deviation.

    The costs keep their units: those of their limits, in which the multipliers are controlled and CPO's step is exact.
    """
    centred = advantages - advantages.mean(1, keepdims=True)
    deviation = centred[0].std()
    return centred.at[0].divide(jnp.where(deviation > 1e-8, deviation, 1.0))
