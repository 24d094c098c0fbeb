"""What recent episodes cost: those with noise, and those without it. The kind that costs more counts.

The policy is used without noise, so what it costs then must be within the limit. But noise makes the cost a smoother
function of the policy: where one step too far costs much, episodes with noise say so before the policy has taken it.
Shapes: H steps, N environments, m constraints, k recent episodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from cvpo.algorithms.base import Transition, first_episode_costs
from cvpo.algorithms.constraint import measured_cost


class EpisodeCosts(NamedTuple):
    """A controller's memory of episodes with noise (row 0) and without (row 1)."""

    known: Bool[Array, "2 1"]  # whether there was any
    mean: Float[Array, "2 m"]  # running mean
    recent: Float[Array, "2 k m"]  # if the constraint is on a quantile or CVaR: what it is taken of; NaN: none yet


def start(config: Any, constraints: int) -> EpisodeCosts:
    """`config` has a constraint and a number of episodes that it is taken of; a mean needs none."""
    kept = 0 if config.constraint == "mean" else config.constraint_episodes
    recent = jnp.full((2, kept, constraints), jnp.nan, float)
    return EpisodeCosts(jnp.zeros((2, 1), bool), jnp.zeros((2, constraints)), recent)


def observe(
    config: Any, costs: EpisodeCosts, rollout: Transition, noiseless: Bool[Array, " N"], weight: float
) -> tuple[EpisodeCosts, Float[Array, " m"]]:
    """With an epoch's episodes [H, N], and the cost [m] that the limit is on.

    `weight` is that of an epoch in the running mean. A kind that has a part of the episodes gets this part of the
    weight, so that its mean is one over as many episodes.
    """
    each = first_episode_costs(rollout)  # [N, m]
    members = jnp.stack([~noiseless, noiseless])  # [2, N]
    count = members.sum(1)[:, None]
    newest = members.astype(each.dtype) @ each / jnp.maximum(count, 1)
    followed = costs.mean + weight * count / len(each) * (newest - costs.mean)
    mean = jnp.where(count == 0, costs.mean, jnp.where(costs.known, followed, newest))
    known = costs.known | (count > 0)
    if config.constraint == "mean":
        recent, limited = costs.recent, mean
    else:
        recent = jax.vmap(lambda old, member: _newest(old, each, member))(costs.recent, members)
        limited = jax.vmap(lambda episodes: measured_cost(config.constraint, episodes, jnp))(recent)
    return EpisodeCosts(known, mean, recent), jnp.where(known, limited, -jnp.inf).max(0)


def _newest(
    recent: Float[Array, "k m"], episodes: Float[Array, "N m"], member: Bool[Array, " N"]
) -> Float[Array, "k m"]:
    """The newest k of recent episodes and those of an epoch that are members, in their order."""
    rows = jnp.concatenate([recent, jnp.where(member[:, None], episodes, jnp.nan)])
    known = ~jnp.isnan(rows).all(1)
    return rows[jnp.argsort(known, stable=True)][-len(recent) :]
