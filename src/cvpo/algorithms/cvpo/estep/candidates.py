"""The candidates of an E-step: actions that the old policy proposes, and what the critics think of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from cvpo.algorithms.base import Key, Params
from cvpo.algorithms.cvpo.config import Config
from cvpo.algorithms.cvpo.heads import Head
from cvpo.algorithms.offpolicy.critics import Critics


class Values(NamedTuple):
    """What an E-step compares, with m costs."""

    q_reward: Float[Array, "B K"]
    q_costs: Float[Array, "m B K"]
    log_prior: Float[Array, "B K"]


class Candidates(NamedTuple):
    """K candidate actions at each of B states, for m costs."""

    obs: Float[Array, "B o"]
    old: Any  # the old policy's distribution at these states
    actions: Float[Array, "B K d"] | None  # None: all choices of a discrete space
    log_prior: Float[Array, "B K"]  # the old policy's log weights of them
    q_reward: Float[Array, "B K"]
    q_costs: Float[Array, "m B K"]

    @property
    def values(self) -> Values:
        return Values(self.q_reward, self.q_costs, self.log_prior)

    @property
    def policy_reward(self) -> Float[Array, ""]:
        """E_π[Q_r] under the old policy."""
        return (self.q_reward * jnp.exp(self.log_prior)).sum(-1).mean()

    @property
    def policy_costs(self) -> Float[Array, " m"]:
        """E_π[Q_c] under the old policy."""
        return (self.q_costs * jnp.exp(self.log_prior)).sum(-1).mean(-1)


def draw_candidates(
    config: Config,
    head: Head,
    critics: Critics,
    critic_params: Any,
    old_actor: Params,
    obs: Float[Array, "B o"],
    key: Key,
) -> Candidates:
    old = head.distribution(old_actor, obs)
    actions, log_prior = head.candidates(old, key, config.particles)
    return Candidates(obs, old, actions, log_prior, *critics.combine(critics.values(critic_params, obs, actions)))


def centred(candidates: Candidates) -> Candidates:
    """The same candidates with values whose mean under the old policy is 0 at every state.

    An E-step with a requested reduction needs differences only, and these have more digits than the values.
    """
    prior = jnp.exp(candidates.log_prior)

    def differences(q: Float[Array, "B K"]) -> Float[Array, "B K"]:
        return q - (q * prior).sum(-1, keepdims=True)

    q_costs = jnp.stack([differences(q) for q in candidates.q_costs])
    return candidates._replace(q_reward=differences(candidates.q_reward), q_costs=q_costs)
