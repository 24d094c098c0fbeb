"""Soft actor-critic (Haarnoja et al. 2018) and SAC-Lag, which is SAC on a penalised value.

Shapes: B states, K next actions, d components of an action, E critics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from cvpo.algorithms.base import Algorithm, Key, Params, Sample, Spec, Transition, UpdateMetrics
from cvpo.algorithms.config import require_positive, setting
from cvpo.algorithms.offpolicy import lagrangian
from cvpo.algorithms.offpolicy.critics import CriticConfig, CriticState, make_critics
from cvpo.algorithms.shared import networks
from cvpo.algorithms.shared.distributions import SquashedGaussian
from cvpo.algorithms.shared.optimizers import settling_adam
from cvpo.algorithms.shared.portable import squashed_policy


@dataclass(frozen=True)
class Config(CriticConfig):
    """Settings of SAC."""

    policy_learning_rate: float = setting(1e-3, "policy")
    """Learning rate of the policy (Adam)."""
    temperature: float = setting(0.1, "policy")
    """Weight of the entropy relative to the value; its start value if it is automatic."""
    automatic_temperature: bool = setting(True, "policy")
    """Adapt the temperature so that the entropy stays near its target."""
    target_entropy: float | None = setting(None, "policy")
    """Entropy that the automatic temperature aims at. Default: minus the number of action components."""
    temperature_learning_rate: float = setting(1e-3, "policy")
    """Learning rate of the temperature (Adam)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "policy_learning_rate", "temperature", "temperature_learning_rate")


@dataclass(frozen=True)
class LagConfig(Config, lagrangian.MultiplierConfig):
    """Settings of SAC-Lag."""


class State(NamedTuple):
    critics: CriticState
    actor: networks.MLP
    optimizer: optax.OptState
    log_temperature: jax.Array
    temperature_optimizer: optax.OptState
    penalty: lagrangian.PenaltyState


def make(config: Config, spec: Spec) -> Algorithm:
    lagrangian.require_continuous("SAC", spec)
    spec = lagrangian.constrained(config, spec)
    critics = make_critics(config, spec)
    penalty = lagrangian.make_penalty(config, spec)
    optimizer = settling_adam(config.policy_learning_rate, config.policy_steady_steps())
    temperature_optimizer = optax.adam(config.temperature_learning_rate)
    target_entropy = -float(spec.action_size) if config.target_entropy is None else config.target_entropy

    def init(key: Key) -> State:
        critic_key, actor_key = jax.random.split(key)
        actor = networks.squashed_init(actor_key, spec.obs_size, spec.action_size, config.hidden)
        log_temperature = jnp.asarray(math.log(config.temperature), float)
        return State(
            critics=critics.init(critic_key),
            actor=actor,
            optimizer=optimizer.init(actor),
            log_temperature=log_temperature,
            temperature_optimizer=temperature_optimizer.init(log_temperature),
            penalty=penalty.init(),
        )

    def act(params: Params, obs: jax.Array, noise: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        policy = networks.squashed_apply(params, obs)
        if noise is not None:
            return policy.shifted(noise)
        action = jnp.tanh(policy.mean)
        return action, log_density(policy, action)

    def update(state: State, sample: Sample, key: Key) -> tuple[State, UpdateMetrics]:
        next_key, action_key = jax.random.split(key)
        temperature = jnp.exp(state.log_temperature)

        def expect(params: Any, obs: jax.Array) -> jax.Array:
            """Soft values [E, B]: the entropy counts as reward, not as cost."""
            policy = networks.squashed_apply(state.actor, obs)
            draws = jax.random.split(next_key, config.next_actions)
            actions, log_prob = jax.vmap(policy.sample_and_log_prob, out_axes=1)(draws)  # [B, K, d], [B, K]
            q = critics.values(params, obs, actions)
            return q.at[: config.reward_critics].add(-temperature * log_prob).mean(-1)

        def log_prob_now(obs: jax.Array, action: jax.Array) -> jax.Array:
            return log_density(networks.squashed_apply(state.actor, obs), action)

        critic_state, info = lagrangian.learn_critics(critics, spec, state.critics, sample.steps, expect, log_prob_now)

        def loss(actor: networks.MLP) -> tuple[jax.Array, tuple[jax.Array, jax.Array, jax.Array]]:
            action, log_prob = networks.squashed_apply(actor, sample.states).sample_and_log_prob(action_key)
            q = critics.values(critic_state.params, sample.states, action[:, None, :])[..., 0]
            q_reward, q_costs = critics.combine(q)
            objective = penalty.objective(state.penalty, q_reward, q_costs)
            return (temperature * log_prob - objective).mean(), (log_prob.mean(), q_reward, q_costs)

        (value, (log_prob, q_reward, q_costs)), gradient = jax.value_and_grad(loss, has_aux=True)(state.actor)
        step, opt_state = optimizer.update(gradient, state.optimizer)
        new = state._replace(
            critics=critic_state,
            actor=optax.apply_updates(state.actor, step),
            optimizer=opt_state,
            penalty=penalty.observe_critic(state.penalty, critic_state.units, q_costs),
        )
        if config.automatic_temperature:
            # Gradient of log α · (entropy - target): too little entropy raises the temperature.
            step, opt_state = temperature_optimizer.update(-log_prob - target_entropy, state.temperature_optimizer)
            new = new._replace(
                log_temperature=optax.apply_updates(state.log_temperature, step), temperature_optimizer=opt_state
            )
        info |= {
            "policy/loss": value,
            "policy/entropy": -log_prob,
            "policy/temperature": temperature,
            **lagrangian.value_info(critic_state.units, q_reward, q_costs),
            **penalty.info(new.penalty),
        }
        return new, UpdateMetrics(info)

    def observe(state: State, rollout: Transition, noiseless: jax.Array) -> State:
        return state._replace(penalty=penalty.observe(state.penalty, rollout, noiseless))

    portable = partial(squashed_policy, action_size=spec.action_size)
    return Algorithm(init, lambda state: state.actor, act, update, observe, portable=portable)


def log_density(policy: SquashedGaussian, action: jax.Array) -> jax.Array:
    """Log density [...] of actions [..., d].

    At the bounds float32 no longer tells what was squashed to them: there, actions count as just inside.
    """
    action = jnp.clip(action, -1 + 1e-6, 1 - 1e-6)
    normal = jax.scipy.stats.norm.logpdf(jnp.arctanh(action), policy.mean, policy.scale)
    return (normal - jnp.log1p(-(action**2))).sum(-1)
