"""The replay: a ring of epochs on the device. E epochs of H steps in N environments, each written once."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from cvpo.algorithms.base import Spec, Transition


def create(spec: Spec, epochs: int, envs: int) -> Transition:
    """Empty storage [E, H, N, ...]."""

    def zeros(*shape: int, dtype: type = jnp.float32) -> jax.Array:
        return jnp.zeros((epochs, spec.episode_length, envs, *shape), dtype)

    action = zeros(dtype=jnp.int32) if spec.discrete else zeros(spec.action_size)
    return Transition(
        obs=zeros(spec.obs_size),
        action=action,
        log_prob=zeros(),
        reward=zeros(),
        costs=zeros(spec.num_costs),
        next_obs=zeros(spec.obs_size),
        terminated=zeros(dtype=jnp.bool_),
        ended=zeros(dtype=jnp.bool_),
    )


@partial(jax.jit, donate_argnums=0)
def add(storage: Transition, rollout: Transition, slot: jax.Array) -> Transition:
    """Storage with the epoch in `slot` replaced by a rollout [H, N, ...], in place."""
    return jax.tree.map(lambda ring, new: ring.at[slot].set(new), storage, rollout)


def sample(storage: Transition, filled: jax.Array, key: jax.Array, batch_size: int, length: int = 1) -> Transition:
    """Steps drawn uniformly from the first `filled` epochs: [B, ...], or sequences [B, length, ...] if length > 1.

    A sequence that runs beyond its epoch goes on at the epoch's first step, so that each step is drawn equally often in
    each place. The last step counts as ended: whoever sums along a sequence stops at an ended step and bootstraps.
    """
    _, horizon, envs = storage.reward.shape
    index = jax.random.randint(key, (batch_size,), 0, filled * horizon * envs)
    epoch, step, env = index // (horizon * envs), index // envs % horizon, index % envs
    if length == 1:
        return jax.tree.map(lambda ring: ring[epoch, step, env], storage)
    steps = (step[:, None] + jnp.arange(length)) % horizon
    batch: Transition = jax.tree.map(lambda ring: ring[epoch[:, None], steps, env[:, None]], storage)
    return batch._replace(ended=batch.ended | (steps == horizon - 1))
