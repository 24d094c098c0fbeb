"""Targets for critics and advantages for policies, the same for reward and for each cost.

n-step sums, Retrace and GAE are one backward recurrence, x_t = term_t + factor_t * x_{t+1}; they differ in the two
sequences only. `ended` cuts the recurrence, since the next row belongs to another episode; `terminated`, which implies
`ended`, also removes the value of the next state. An episode cut by time is ended, not terminated: it bootstraps.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from cvpo.errors import BadValue

Number = float | Float[Array, ""]


def threshold_factor(episode_length: int, gamma: float) -> float:
    """What an episode's cost limit is multiplied by to bound a discounted cost: (1-γ^T) / (T (1-γ)).

    From the paper's appendix on implementation; it assumes that each step of the episode costs the same.
    """
    if episode_length < 1:
        raise BadValue(f"episode_length must be >= 1, got {episode_length}")
    if not 0 <= gamma <= 1:
        raise BadValue(f"gamma must be between 0 and 1, got {gamma}")
    return 1.0 if gamma == 1 else (1 - gamma**episode_length) / (episode_length * (1 - gamma))


def td_target(
    reward: Float[Array, "*shape"],
    next_value: Float[Array, "*shape"],
    terminated: Bool[Array, "*#shape"],
    gamma: Number,
) -> Float[Array, "*shape"]:
    """One-step target, for arrays of any one shape: the paper's critic losses (appendix, critics update)."""
    return reward + gamma * jnp.where(terminated, 0.0, next_value)


def n_step_target(
    reward: Float[Array, "B n"],
    next_value: Float[Array, "B n"],
    terminated: Bool[Array, "B n"],
    ended: Bool[Array, "B n"],
    gamma: Number,
) -> Float[Array, " B"]:
    """Target [B] of the first of n steps [B, n]: rewards up to the first ended step, or n, then the next value."""
    last = ended.at[:, -1].set(True)
    term = jnp.where(last, td_target(reward, next_value, terminated, gamma), reward)
    return _recur(term.T, gamma * ~last.T)[0]


def retrace_target(
    q_taken: Float[Array, "B n"],
    next_value: Float[Array, "B n"],
    reward: Float[Array, "B n"],
    terminated: Bool[Array, "B n"],
    ended: Bool[Array, "B n"],
    log_ratio: Float[Array, "B n"],
    gamma: Number,
    lam: Number,
) -> Float[Array, "B n"]:
    """Retrace(λ) targets of all n steps [B, n], each by what follows it in its row (Munos et al. 2016, Eq. 4).

    q_taken: target critic at the stored (state, action); next_value: its mean under the policy π at next_obs;
    log_ratio: log π/μ of the stored action, μ having drawn it. The first is not used: Q(s, a) is given its action.
    """
    delta = td_target(reward, next_value, terminated, gamma) - q_taken
    trace = lam * jnp.exp(jnp.minimum(log_ratio, 0.0))
    following = jnp.pad(trace[:, 1:], ((0, 0), (0, 1)))
    return q_taken + _recur(delta.T, gamma * jnp.where(ended, 0.0, following).T).T


def gae(
    value: Float[Array, "H N"],
    next_value: Float[Array, "H N"],
    reward: Float[Array, "H N"],
    terminated: Bool[Array, "H N"],
    ended: Bool[Array, "H N"],
    gamma: Number,
    lam: Number,
) -> tuple[Float[Array, "H N"], Float[Array, "H N"]]:
    """Generalised advantages and value targets [H, N] of a rollout [H, N] (Schulman et al. 2016, Eq. 16)."""
    delta = td_target(reward, next_value, terminated, gamma) - value
    advantage = _recur(delta, gamma * lam * ~ended)
    return advantage, advantage + value


def _recur(term: Float[Array, "T N"], factor: Float[Array, "T N"]) -> Float[Array, "T N"]:
    """x with x_t = term_t + factor_t * x_{t+1} and x_T = 0."""

    def step(following: jax.Array, row: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        now = row[0] + row[1] * following
        return now, now

    return jax.lax.scan(step, jnp.zeros_like(term[0]), (term, factor), reverse=True)[1]
