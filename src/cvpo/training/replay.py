"""The replay: a ring of epochs on the device, which keeps its own place. E epochs of H steps in N environments."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from cvpo.algorithms.base import Spec, Transition


class Replay(NamedTuple):
    """The newest E epochs. The number that was ever added says where the next one goes and how many are filled."""

    steps: Transition  # [E, H, N, ...]
    added: jax.Array  # int32 []


def create(spec: Spec, epochs: int, envs: int) -> Replay:
    """An empty replay with room for `epochs`."""
    blank = segment(spec, envs)
    steps: Transition = jax.tree.map(lambda x: jnp.zeros((epochs, *x.shape), x.dtype), blank)
    return Replay(steps, jnp.zeros((), jnp.int32))


def segment(spec: Spec, envs: int) -> Transition:
    """Shapes and dtypes of one epoch, [H, N, ...]."""

    def array(*shape: int, dtype: Any = jnp.float32) -> Any:
        return jax.ShapeDtypeStruct((spec.episode_length, envs, *shape), dtype)

    seen = array(spec.obs_size, dtype=jnp.uint8 if spec.images else jnp.float32)
    return Transition(
        obs=seen,
        action=array(dtype=jnp.int32) if spec.discrete else array(spec.action_size),
        log_prob=array(),
        reward=array(),
        costs=array(spec.num_costs),
        next_obs=seen,
        terminated=array(dtype=jnp.bool_),
        ended=array(dtype=jnp.bool_),
    )


@partial(jax.jit, donate_argnums=0)
def add(replay: Replay, rollout: Transition) -> Replay:
    """With a rollout [H, N, ...] in place of the oldest epoch once the replay is full; reuses its memory."""
    slot = replay.added % replay.steps.reward.shape[0]
    steps = jax.tree.map(lambda ring, new: ring.at[slot].set(new), replay.steps, rollout)
    return Replay(steps, replay.added + 1)


def restore(replay: Replay, segments: Iterable[tuple[int, Transition]]) -> Replay:
    """With epochs that an earlier process had added, given as (number, rollout), each in the place it had there."""
    for epoch, rollout in segments:
        replay = add(replay._replace(added=jnp.asarray(epoch, jnp.int32)), rollout)
    return replay


def sample(replay: Replay, key: jax.Array, batch_size: int, length: int = 1) -> Transition:
    """Steps drawn uniformly from all epochs that are filled: [B, ...], or sequences [B, length, ...] if length > 1.

    A sequence that runs beyond its epoch goes on at the epoch's first step, so that each step is drawn equally often in
    each place. The last step counts as ended: whoever sums along a sequence stops at an ended step and bootstraps.
    """
    horizon = replay.steps.reward.shape[1]
    epoch, step, env = _draw(replay, key, batch_size)
    if length == 1:
        return jax.tree.map(lambda ring: ring[epoch, step, env], replay.steps)
    steps = (step[:, None] + jnp.arange(length)) % horizon
    batch: Transition = jax.tree.map(lambda ring: ring[epoch[:, None], steps, env[:, None]], replay.steps)
    return batch._replace(ended=batch.ended | (steps == horizon - 1))


def sample_states(replay: Replay, key: jax.Array, count: int) -> jax.Array:
    """Observations [count, D] drawn uniformly, one by one."""
    return replay.steps.obs[_draw(replay, key, count)]


def _draw(replay: Replay, key: jax.Array, count: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Where so many steps are, drawn uniformly from all epochs that are filled: (epoch, step, environment)."""
    epochs, horizon, envs = replay.steps.reward.shape
    filled = jnp.minimum(replay.added, epochs)
    index = jax.random.randint(key, (count,), 0, filled * horizon * envs)
    return index // (horizon * envs), index // envs % horizon, index % envs
