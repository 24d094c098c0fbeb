"""PPO (Schulman et al. 2017) and PPO-Lag, which is PPO on a penalised advantage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from cvpo.algorithms.base import Algorithm, Key, Scalars, Spec
from cvpo.algorithms.config import require_at_least, require_between, require_positive, setting
from cvpo.algorithms.onpolicy.iteration import Batch, make_algorithm
from cvpo.algorithms.onpolicy.lagrangian import MultiplierConfig, constrained, penalized_advantage
from cvpo.algorithms.onpolicy.policy import PolicyConfig, PolicyParams, make_policy
from cvpo.algorithms.onpolicy.values import minibatches
from cvpo.algorithms.shared import pid


@dataclass(frozen=True)
class Config(PolicyConfig):
    """Settings of PPO."""

    clip_ratio: float = setting(0.2, "policy")
    """How far a probability ratio may move from 1 before it has no gradient any more."""
    policy_epochs: int = setting(10, "policy")
    """Passes over the rollout to improve the policy, at most."""
    kl_stop: float = setting(0.02, "policy")
    """Stop the passes once the mean KL from the old policy exceeds this; inf: never."""
    policy_learning_rate: float = setting(3e-4, "policy")
    """Learning rate of the policy (Adam)."""
    entropy_bonus: float = setting(0.0, "policy")
    """Weight of the policy's entropy in its objective."""
    max_gradient_norm: float = setting(0.5, "policy")
    """Clip the policy's gradient to this norm."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between(self, 0.0, 1.0, "clip_ratio")
        require_at_least(self, 1, "policy_epochs")
        require_at_least(self, 0, "entropy_bonus", "kl_stop")
        require_positive(self, "policy_learning_rate", "max_gradient_norm")


@dataclass(frozen=True)
class LagConfig(Config, MultiplierConfig):
    """Settings of PPO-Lag."""


class Memory(NamedTuple):
    optimizer: optax.OptState
    controller: pid.PIDState


def clipped_objective(log_ratio: jax.Array, advantage: jax.Array, clip_ratio: float) -> jax.Array:
    """Eq. 7 of Schulman et al. 2017, for each sample [B]: no gain from a ratio beyond 1 ± clip_ratio."""
    ratio = jnp.exp(log_ratio)
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip_ratio, 1 + clip_ratio) * advantage)


def make(config: Config, spec: Spec) -> Algorithm:
    """PPO, or PPO-Lag if `config` has multipliers."""
    spec = constrained(config, spec)
    policy = make_policy(config, spec)
    optimizer = optax.chain(
        optax.clip_by_global_norm(config.max_gradient_norm), optax.adam(config.policy_learning_rate)
    )

    def init_memory(params: PolicyParams) -> Memory:
        return Memory(optimizer.init(params), pid.pid_init(spec.num_costs))

    def improve(params: PolicyParams, memory: Memory, batch: Batch, key: Key) -> tuple[PolicyParams, Memory, Scalars]:
        controller, advantage, info = penalized_advantage(config, spec, memory.controller, batch)

        def loss(params: PolicyParams, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
            new = policy.distribution(params, batch.obs[rows])
            log_ratio = policy.log_prob(new, batch.action[rows]) - batch.log_prob[rows]
            objective = clipped_objective(log_ratio, advantage[rows], config.clip_ratio).mean()
            # an unbiased estimate of KL(old || new) that is never negative
            kl = (jnp.expm1(log_ratio) - log_ratio).mean()
            return -objective - config.entropy_bonus * new.entropy().mean(), kl

        def step(carry: tuple, rows: jax.Array) -> tuple[tuple, tuple[jax.Array, jax.Array]]:
            params, opt_state = carry
            (value, kl), gradient = jax.value_and_grad(loss, has_aux=True)(params, rows)
            change, opt_state = optimizer.update(gradient, opt_state)
            return (optax.apply_updates(params, change), opt_state), (value, kl)

        def epoch(carry: tuple) -> tuple:
            i, params, opt_state, _, _ = carry
            rows = minibatches(jax.random.fold_in(key, i), batch.obs.shape[0], config.minibatch_size)
            (params, opt_state), (values, kls) = jax.lax.scan(step, (params, opt_state), rows)
            return i + 1, params, opt_state, values.mean(), kls.mean()

        def unfinished(carry: tuple) -> Any:
            i, _, _, _, kl = carry
            return (i < config.policy_epochs) & (kl <= config.kl_stop)

        start = (jnp.zeros((), jnp.int32), params, memory.optimizer, jnp.zeros(()), jnp.zeros(()))
        passes, params, opt_state, value, _ = jax.lax.while_loop(unfinished, epoch, start)
        info |= {"update/policy_loss": value, "update/policy_epochs": passes}
        return params, Memory(opt_state, controller), info

    return make_algorithm(config, spec, policy, improve, init_memory)
