"""TD3 (Fujimoto et al. 2018) and DDPG (Lillicrap et al. 2016), with and without Lagrange multipliers.

DDPG is TD3 without its three additions, so here it is only settings: one reward critic, no noise on the target's
action, a policy step after each critic step. Shapes: B states, K next actions, d components of an action, E critics.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from cvpo.algorithms.base import Algorithm, Key, Params, Sample, Scalars, Spec, Transition, UpdateMetrics
from cvpo.algorithms.config import require_at_least, require_positive, setting
from cvpo.algorithms.offpolicy import lagrangian
from cvpo.algorithms.offpolicy.critics import CriticConfig, CriticState, Units, make_critics
from cvpo.algorithms.shared import networks
from cvpo.algorithms.shared.distributions import Gaussian
from cvpo.algorithms.shared.optimizers import settling_adam
from cvpo.algorithms.shared.portable import deterministic_policy
from cvpo.errors import BadValue


@dataclass(frozen=True)
class Config(CriticConfig):
    """Settings of TD3."""

    random_epochs: int = setting(1, "training")
    """Epochs at the start that act at random, uniformly: a deterministic policy with a little noise explores too
    little."""
    policy_learning_rate: float = setting(1e-3, "policy")
    """Learning rate of the policy (Adam)."""
    exploration_noise: float = setting(0.1, "policy")
    """Standard deviation of the noise on the actions taken in training; actions span [-1, 1]."""
    target_noise: float = setting(0.2, "critics")
    """Standard deviation of the noise on the next actions in a critic's target."""
    target_noise_clip: float = setting(0.5, "critics")
    """Largest absolute value of that noise."""
    policy_delay: int = setting(2, "policy")
    """Critic updates per policy update."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "policy_learning_rate", "exploration_noise")
        require_at_least(self, 0, "target_noise", "target_noise_clip")
        require_at_least(self, 1, "policy_delay")
        if self.retrace and self.cut_traces:
            raise BadValue(
                "cut_traces weighs actions by their density, which a deterministic policy does not have, "
                "got cut_traces=True; leave it off, or use cvpo or sac"
            )


@dataclass(frozen=True)
class LagConfig(Config, lagrangian.MultiplierConfig):
    """Settings of TD3-Lag."""


@dataclass(frozen=True)
class DDPGConfig(Config):
    """Settings of DDPG."""

    reward_critics: int = setting(1, "critics")
    """Number of reward critics; the smallest value counts."""
    target_noise: float = setting(0.0, "critics")
    """Standard deviation of the noise on the next actions in a critic's target."""
    policy_delay: int = setting(1, "policy")
    """Critic updates per policy update."""


@dataclass(frozen=True)
class DDPGLagConfig(DDPGConfig, lagrangian.MultiplierConfig):
    """Settings of DDPG-Lag."""


class State(NamedTuple):
    critics: CriticState
    actor: networks.MLP
    target_actor: networks.MLP
    optimizer: optax.OptState
    penalty: lagrangian.PenaltyState
    updates: jax.Array
    policy_info: Scalars  # of the latest policy step: an epoch's means must not count the steps between as zeros


def make(config: Config, spec: Spec) -> Algorithm:
    lagrangian.require_continuous("DDPG" if isinstance(config, DDPGConfig) else "TD3", spec)
    spec = lagrangian.constrained(config, spec)
    critics = make_critics(config, spec)
    # The policy climbs the first reward critic alone: the minimum is there to keep targets low, not to be climbed.
    judges = make_critics(dataclasses.replace(config, reward_critics=1), spec)
    penalty = lagrangian.make_penalty(config, spec, config.policy_delay)
    optimizer = settling_adam(config.policy_learning_rate, config.policy_steady_steps(1 / config.policy_delay))

    def init(key: Key) -> State:
        critic_key, actor_key = jax.random.split(key)
        sizes = (spec.obs_size, *config.hidden, spec.action_size)
        actor = networks.mlp_init(actor_key, sizes, last_scale=0.01)
        penalty_state, critic_state = penalty.init(), critics.init(critic_key)
        return State(
            critics=critic_state,
            actor=actor,
            target_actor=actor,
            optimizer=optimizer.init(actor),
            penalty=penalty_state,
            updates=jnp.zeros((), jnp.int32),
            policy_info=policy_info(
                critic_state.units, jnp.zeros(()), jnp.zeros(1), jnp.zeros((spec.num_costs, 1)), penalty_state
            ),
        )

    def policy_info(
        units: Units, loss: jax.Array, q_reward: jax.Array, q_costs: jax.Array, state: lagrangian.PenaltyState
    ) -> Scalars:
        return {"policy/loss": loss, **lagrangian.value_info(units, q_reward, q_costs), **penalty.info(state)}

    def act(params: Params, obs: jax.Array, noise: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        action = networks.deterministic_apply(params, obs)
        explore = Gaussian(action, config.exploration_noise * jnp.eye(spec.action_size))
        if noise is not None:
            action = explore.shifted(noise[:, None])[:, 0]
        return action, explore.log_prob(action[:, None])[:, 0]

    def improve(state: State, obs: jax.Array) -> State:
        """One step of the policy up the penalised value of its actions."""
        first, costs = state.critics.params[0], state.critics.params[config.reward_critics :]

        def loss(actor: networks.MLP) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            action = networks.deterministic_apply(actor, obs)
            q_reward, q_costs = judges.combine(judges.values((first, *costs), obs, action[:, None, :])[..., 0])
            return -penalty.objective(state.penalty, q_reward, q_costs).mean(), (q_reward, q_costs)

        (value, (q_reward, q_costs)), gradient = jax.value_and_grad(loss, has_aux=True)(state.actor)
        step, opt_state = optimizer.update(gradient, state.optimizer)
        penalty_state = penalty.observe_critic(state.penalty, state.critics.units, q_costs)
        return state._replace(
            actor=optax.apply_updates(state.actor, step),
            optimizer=opt_state,
            penalty=penalty_state,
            policy_info=policy_info(state.critics.units, value, q_reward, q_costs, penalty_state),
        )

    def update(state: State, sample: Sample, key: Key) -> tuple[State, UpdateMetrics]:
        def expect(params: Any, obs: jax.Array) -> jax.Array:
            mean = networks.deterministic_apply(state.target_actor, obs)[:, None, :]
            shape = (mean.shape[0], config.next_actions, spec.action_size)
            noise = config.target_noise * jax.random.normal(key, shape)
            noise = jnp.clip(noise, -config.target_noise_clip, config.target_noise_clip)
            return critics.values(params, obs, mean + noise).mean(-1)

        critic_state, info = lagrangian.learn_critics(critics, spec, state.critics, sample.steps, expect, None)
        state = state._replace(critics=critic_state, updates=state.updates + 1)
        if config.policy_delay == 1:
            state = improve(state, sample.states)
        else:
            due = state.updates % config.policy_delay == 0
            state = jax.lax.cond(due, improve, lambda state, obs: state, state, sample.states)
        target_actor = optax.incremental_update(state.actor, state.target_actor, 1 - config.polyak)
        return state._replace(target_actor=target_actor), UpdateMetrics(info | state.policy_info)

    def observe(state: State, rollout: Transition, noiseless: jax.Array) -> State:
        return state._replace(penalty=penalty.observe(state.penalty, rollout, noiseless))

    portable = partial(deterministic_policy, action_size=spec.action_size, noise=config.exploration_noise)
    return Algorithm(init, lambda state: state.actor, act, update, observe, portable=portable)
