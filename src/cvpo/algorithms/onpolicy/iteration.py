"""The iteration that all on-policy methods share: advantages of a rollout, the policy's improvement, the values' fit.

A method adds one function, `improve`, which improves the policy on a batch. Shapes: H steps of N environments make
B = H·N rows; o observation size; m constraints; the reward and the m costs are one array of signals [1 + m, ...].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from cvpo.algorithms.base import (
    Algorithm,
    Key,
    Scalars,
    Spec,
    Transition,
    UpdateMetrics,
    first_episode_costs,
    first_episode_means,
)
from cvpo.algorithms.constraint import measured_cost
from cvpo.algorithms.onpolicy.policy import PolicyConfig, PolicyParams, StochasticPolicy
from cvpo.algorithms.onpolicy.values import ValueState, make_values
from cvpo.algorithms.shared import returns
from cvpo.metric_names import per_cost


class Batch(NamedTuple):
    """A rollout as the policy's improvement needs it."""

    obs: jax.Array  # [B, o]
    action: jax.Array  # [B, d], or [B] if discrete
    log_prob: jax.Array  # [B] under the policy before its improvement
    advantages: jax.Array  # [1 + m, B], standardised
    cost_scales: jax.Array  # [m] what the costs' advantages were divided by
    episode_costs: jax.Array  # [m] means over episodes, or the constraint's statistic
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
        standardised, deviations = standardize(advantage)
        batch = Batch(
            obs=obs,
            action=action,
            log_prob=rollout.log_prob.reshape(-1),
            advantages=standardised,
            cost_scales=deviations[1:],
            episode_costs=episode_costs(config, rollout._replace(costs=rollout.costs[..., : spec.num_costs])),
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

    return Algorithm(init, lambda state: state.policy, policy.act, update, portable=policy.portable)


def episode_costs(config: PolicyConfig, rollout: Transition) -> jax.Array:
    """What a rollout's episodes cost [m]: their mean, or the statistic that a method's constraint is on."""
    constraint = getattr(config, "constraint", "mean")  # only the Lagrangian methods have one
    if constraint == "mean":
        return first_episode_means(rollout, rollout.costs)
    return measured_cost(constraint, first_episode_costs(rollout), jnp)


def standardize(advantages: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Advantages [1 + m, B] with mean zero and unit deviation, and their deviations [1 + m] before.

    A signal whose advantages are all the same has the deviation 1.
    """
    centred = advantages - advantages.mean(1, keepdims=True)
    deviation = centred.std(1)
    deviation = jnp.where(deviation > 0, deviation, 1.0)
    return centred / deviation[:, None], deviation
