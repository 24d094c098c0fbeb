"""The contract that every algorithm meets, and the data that flows through it.

Shapes, here and everywhere: H time steps, N parallel environments, B batch, K particles, m constraints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

State = Any  # the whole of a learner: parameters, targets, optimisers, dual variables, controllers
Params = Any  # the part of a State that acting needs
Key = jax.Array
Scalars = dict[str, jax.Array]  # by the names that the run's log has for them


@dataclass(frozen=True)
class Spec:
    """What an algorithm must know of its environment, and nothing else."""

    obs_size: int
    action_size: int  # components of an action in [-1, 1], the number of choices if discrete, or the sum of `choices`
    discrete: bool
    cost_limits: tuple[float, ...]  # per episode, one for each constraint; inf: not constrained
    episode_length: int
    choices: tuple[int, ...] = ()  # options of each choice if an action is several at once: one-hot, side by side
    # Shapes of the images in an observation. If there are any it is bytes: the images, then the numbers beside them
    # as float32, four bytes each.
    images: tuple[tuple[int, ...], ...] = ()

    @property
    def num_costs(self) -> int:
        return len(self.cost_limits)


class Transition(NamedTuple):
    """One step, or any array of steps. A rollout has leading axes [H, N], a batch [B] or [B, n].

    `action` is as the policy drew it, before any clipping, so that its density can be evaluated again;
    whatever judges an action (environment, critics) clips it to [-1, 1] first.
    `next_obs` is what followed in the same episode, also at its last step: a truncated episode bootstraps from it.
    """

    obs: jax.Array  # [..., obs_size]
    action: jax.Array  # [..., action_size], or [...] int32 if discrete
    log_prob: jax.Array  # [...] of `action` under the policy that drew it
    reward: jax.Array  # [...]
    costs: jax.Array  # [..., m]
    next_obs: jax.Array  # [..., obs_size]
    terminated: jax.Array  # [...] bool: the next state has no future
    ended: jax.Array  # [...] bool: last step of its episode, terminated or cut by time


class Sample(NamedTuple):
    """What an update of a method with a replay learns from.

    Critics need sequences, but the states of one are nearly the same: a policy learns far more from as many states that
    were drawn one by one.
    """

    steps: Transition  # [B], or [B, n] sequences, for the critics
    states: jax.Array  # [S, obs_size] for the policy


def seen_through(look: Callable[[jax.Array], jax.Array], data: Transition | Sample) -> Any:
    """`data` with what `look` makes of its observations."""
    if isinstance(data, Sample):
        return Sample(seen_through(look, data.steps), look(data.states))
    return data._replace(obs=look(data.obs), next_obs=look(data.next_obs))


class UpdateMetrics(NamedTuple):
    """What one update tells the run's log, by what becomes of an epoch's updates: their mean or the largest of them."""

    mean: Scalars
    maximum: Scalars = {}  # noqa: RUF012 - never changed

    @classmethod
    def before_any(cls, shapes: UpdateMetrics) -> UpdateMetrics:
        """What `plus` starts from, for metrics of these shapes."""
        return cls(
            jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes.mean),
            jax.tree.map(lambda x: jnp.full(x.shape, -jnp.inf, x.dtype), shapes.maximum),
        )

    def plus(self, other: UpdateMetrics) -> UpdateMetrics:
        """Sums and maxima with one more update."""
        return UpdateMetrics(
            jax.tree.map(jnp.add, self.mean, other.mean), jax.tree.map(jnp.maximum, self.maximum, other.maximum)
        )

    def of(self, updates: int) -> Scalars:
        """The epoch's metrics, from the sums and maxima of so many updates."""
        return {name: total / updates for name, total in self.mean.items()} | self.maximum


class Portable(NamedTuple):
    """A policy's parameters by names, and a description in JSON's types of how to act by them: docs/policy_file.md."""

    description: dict[str, Any]
    arrays: dict[str, jax.Array]


class Algorithm(NamedTuple):
    """A learner as pure functions over one state; all are traced by JAX.

    init(key) -> state
    policy(state) -> params        the part of the state that acting needs; this is what gets exported
    act(params, obs [N, obs_size], noise) -> (action, log_prob)   noise [N, action_size]: standard normal numbers that
                                   the action is made of, or Gumbel's for choices; None: the deterministic action
    observe(state, rollout [H, N], noiseless [N]) -> state   once an epoch, before its updates (on-policy: after): what
                                   episodes tell, and which of them acted without noise
    update(state, data, key) -> (state, metrics)   off-policy: a Sample of the replay, called many times an epoch;
                                   on-policy: the rollout [H, N], called once an epoch
    describe() -> str              one line for the start of a run, may be empty
    portable(params) -> Portable   the same parameters for what acts without JAX: the policy file
    """

    init: Callable[[Key], State]
    policy: Callable[[State], Params]
    act: Callable[[Params, jax.Array, Key | None], tuple[jax.Array, jax.Array]]
    update: Callable[[State, Any, Key], tuple[State, UpdateMetrics]]
    observe: Callable[[State, Transition, jax.Array], State] = lambda state, rollout, noiseless: state
    describe: Callable[[], str] = lambda: ""
    portable: Callable[[Params], Portable] | None = None


def in_first_episode(ended: Any) -> Any:
    """Which steps [H, N] are of their environment's first episode in a rollout; of NumPy's arrays or JAX's."""
    return ended.cumsum(0) - ended == 0


def first_episode_costs(rollout: Transition) -> jax.Array:
    """Costs [N, m] of each environment's first episode, which is whole."""
    return (rollout.costs * in_first_episode(rollout.ended)[..., None]).sum(0)


def first_episode_means(rollout: Transition, values: jax.Array) -> jax.Array:
    """Mean over environments of the sum of `values` [H, N, ...] over the first episode of each, which is whole.

    Of the episodes that follow one that ended early, the epoch's end cuts the long ones. A mean over those that were
    completed would be one over short episodes: too low a cost, by a quarter for some.
    """
    first = in_first_episode(rollout.ended)
    mask = first.reshape(first.shape + (1,) * (values.ndim - 2))
    return (values * mask).sum((0, 1)) / rollout.ended.shape[1]
