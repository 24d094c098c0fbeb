"""The costs of recent episodes [k, m], for constraints on more than their mean. Rows of NaN: no episode yet."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from cvpo.algorithms.constraint import measured_cost


def start(config: Any, constraints: int) -> jax.Array:
    """`config` has a constraint and a number of episodes that it is taken of; a mean needs none."""
    return jnp.full((0 if config.constraint == "mean" else config.constraint_episodes, constraints), jnp.nan)


def observe(config: Any, recent: jax.Array, episode_costs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """With the costs [N, m] of the newest episodes in place of the oldest, and the constraint's statistic [m]."""
    recent = jnp.concatenate([recent, episode_costs])[-len(recent) :]
    return recent, measured_cost(config.constraint, recent, jnp)
