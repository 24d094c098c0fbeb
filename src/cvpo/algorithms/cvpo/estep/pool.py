"""The states that an E-step's dual is solved over: those of the newest batches.

The dual of Theorem 1 is an expectation over all states, which a batch only estimates. Where a small batch has no state
near a hazard, meeting its share of a cost reduction fits the noise of the cost critic. So the dual is solved over the
candidates of P batches, once in P updates; in each update the policy is fitted to the newest batch with the weights
that this dual gives.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from cvpo.algorithms.base import Spec
from cvpo.algorithms.cvpo.config import Config
from cvpo.algorithms.cvpo.estep.candidates import Candidates, Values

# Updates of an epoch for each batch of the pool. With fewer, policy and request change too much while one is filled.
UPDATES_PER_BATCH = 60


class Pool(NamedTuple):
    """P batches of B states with K candidates each; m costs."""

    q_reward: jax.Array  # [P, B, K]
    q_costs: jax.Array  # [m, P, B, K]
    log_prior: jax.Array  # [P, B, K]
    batches: jax.Array  # [] seen so far

    @property
    def values(self) -> Values:
        """q_reward [P·B, K], q_costs [m, P·B, K] and log_prior [P·B, K] of all states."""
        size = self.q_reward.shape[-1]
        q_costs = self.q_costs.reshape(len(self.q_costs), -1, size)
        return Values(self.q_reward.reshape(-1, size), q_costs, self.log_prior.reshape(-1, size))


def batch_count(config: Config, spec: Spec) -> int:
    """P: `dual_batches`, or less where an epoch has few updates."""
    possible = int(config.updates_per_epoch(spec.episode_length) / UPDATES_PER_BATCH)
    return max(1, min(config.dual_batches, possible))


def start(constraints: int, batches: int, states: int, particles: int) -> Pool:
    empty = jnp.zeros((batches, states, particles))
    return Pool(empty, jnp.zeros((constraints, *empty.shape)), empty, jnp.zeros((), jnp.int32))


def is_due(pool: Pool) -> jax.Array:
    """Whether the next batch makes the pool complete: then its dual is to be solved. The first batch counts too."""
    return pool.batches % len(pool.q_reward) == 0


def add(pool: Pool, candidates: Candidates) -> Pool:
    """The pool with its oldest batch replaced; the first batch stands for all."""
    size = len(pool.q_reward)
    slot = ((jnp.arange(size) == pool.batches % size) | (pool.batches == 0))[:, None, None]
    return Pool(
        q_reward=jnp.where(slot, candidates.q_reward, pool.q_reward),
        q_costs=jnp.where(slot, candidates.q_costs[:, None], pool.q_costs),
        log_prior=jnp.where(slot, candidates.log_prior, pool.log_prior),
        batches=pool.batches + 1,
    )
