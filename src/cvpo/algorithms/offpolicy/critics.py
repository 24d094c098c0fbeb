"""The critics that all off-policy methods share: ensembles for the reward and for each cost, learned by TD.

Shapes: B states, K candidate actions, n steps of a sequence, m constraints, R reward and C cost members, E = R + m·C.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from cvpo.algorithms.base import Scalars, Spec, Transition
from cvpo.algorithms.config import OffPolicyConfig, require_at_least, require_between, setting
from cvpo.algorithms.shared import networks, returns
from cvpo.metric_names import per_cost

# How fast the units follow the targets, after a start by their mean.
UNIT_RATE = 0.01


@dataclass(frozen=True)
class CriticConfig(OffPolicyConfig):
    """Settings of the critics."""

    reward_critics: int = setting(2, "critics")
    """Number of reward critics; the smallest value counts."""
    cost_critics: int = setting(1, "critics")
    """Number of critics for each cost."""
    cost_ensemble: Literal["mean", "max"] = setting("mean", "critics")
    """How the values of a cost's critics are combined; max is the cautious choice."""
    cost_gamma: float | None = setting(None, "critics")
    """Discount factor of the critics' costs; `gamma` is that of rewards. The critics need only tell which actions cost
    more, and what happens much later is noise in that. Default: they look a tenth of an episode ahead, from 10 to
    100 steps; `gamma` if cost_signal is critic."""
    next_actions: int = setting(1, "critics")
    """Actions drawn at the next state to estimate its value."""
    retrace_lambda: float = setting(0.8, "critics")
    """Weight λ of each further step of a sequence."""
    cut_traces: bool = setting(False, "critics")
    """Count what follows an action less if the policy would hardly choose that action now. False: whole traces, Q(λ) of
    Harutyunyan et al. (2016); the critic alone corrects for other actions."""
    layer_norm: bool = setting(True, "critics")
    """Normalise each hidden layer of the critics. It keeps the values of unseen states bounded."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, 1, "reward_critics", "cost_critics", "next_actions")
        require_between(self, 0.0, 1.0, "retrace_lambda")
        if self.cost_gamma is not None:
            require_between(self, 0.0, 1.0, "cost_gamma")

    def cost_discount(self, episode_length: int) -> float:
        """`cost_gamma`, or what the length of episodes says about how fast things happen."""
        if self.cost_gamma is not None:
            return self.cost_gamma
        if getattr(self, "cost_signal", "measured") == "critic":
            return self.gamma  # the limit is on the critics' value, which must look as far ahead
        return 1 - 1 / min(max(episode_length / 10, 10.0), 100.0)


class Units(NamedTuple):
    """What a network's output o means, for the reward and each cost [1 + m]: the value level + scale · o.

    Networks learn numbers near 1 quickly and others slowly, while returns may have any size and offset.
    """

    level: jax.Array  # [1 + m] mean of the targets
    scale: jax.Array  # [1 + m] deviation of the targets from it; 0 until a signal is seen that varies
    bootstrap: jax.Array  # [1 + m] how much of a target is the value of a later state: 0 to the discount factor
    batches: jax.Array  # [1 + m] seen since the scale is known


class CriticState(NamedTuple):
    params: Any
    target: Any
    optimizer: optax.OptState
    units: Units


class Critics(NamedTuple):
    """The critics of one environment, as functions.

    init(key) -> CriticState
    values(params, obs [B, o], actions [B, K, a] | None) -> q [E, B, K]      None: all choices of a discrete space
    combine(q [E, ...]) -> (q_reward [...], q_costs [m, ...])
    update(state, batch, expect, log_ratio) -> (CriticState, info)
        expect(params, obs [B, o]) -> [E, B]: each member's expected value under the policy at a state
        log_ratio(obs, action) -> [B]: log density of an action under the policy now; used by Retrace only
    """

    init: Callable[[jax.Array], CriticState]
    values: Callable[[Any, jax.Array, jax.Array | None], jax.Array]
    combine: Callable[[jax.Array], tuple[jax.Array, jax.Array]]
    update: Callable[..., tuple[CriticState, Scalars]]


def learned_steps(config: CriticConfig, batch: Transition) -> Transition:
    """The steps [B, ...] of a batch that critics and policy learn from.

    Retrace gives a target to every step of a sequence, so all are used: it then costs no more than one-step targets.
    """
    if config.n_step == 1:
        return batch
    steps: Transition = jax.tree.map(_flat if config.retrace else lambda x: x[:, 0], batch)
    return steps


def _flat(x: jax.Array) -> jax.Array:
    """[B, n, ...] -> [B·n, ...]"""
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


def make_critics(config: CriticConfig, spec: Spec) -> Critics:
    rewards, costs, m = config.reward_critics, config.cost_critics, spec.num_costs
    count = rewards + m * costs
    optimizer = optax.adam(config.critic_learning_rate)
    gammas = jnp.array([config.gamma, *[config.cost_discount(spec.episode_length)] * m])

    def init(key: jax.Array) -> CriticState:
        make = networks.choice_critics_init if spec.discrete else networks.critics_init
        params = make(key, count, spec.obs_size, spec.action_size, config.hidden)
        zeros = jnp.zeros(1 + m)
        return CriticState(params, params, optimizer.init(params), Units(zeros, zeros, zeros, zeros))

    def values(params: Any, obs: jax.Array, actions: jax.Array | None) -> jax.Array:
        if actions is None:
            return networks.choice_critics_apply(params, obs, config.layer_norm)
        return networks.critics_apply(params, obs, actions, config.layer_norm)

    def combine(q: jax.Array) -> tuple[jax.Array, jax.Array]:
        members = q[rewards:].reshape(m, costs, *q.shape[1:])
        merged = members.mean(1) if config.cost_ensemble == "mean" else members.max(1)
        return q[:rewards].min(0), merged

    def taken(params: Any, obs: jax.Array, action: jax.Array) -> jax.Array:
        """Values [E, B] of the actions that were taken."""
        if spec.discrete:
            return jnp.take_along_axis(values(params, obs, None), action[None, :, None], axis=-1)[..., 0]
        return values(params, obs, action[:, None, :])[..., 0]

    def signals(batch: Transition) -> jax.Array:
        """Reward and costs as one array [1 + m, B, ...]."""
        return jnp.concatenate([batch.reward[None], jnp.moveaxis(batch.costs, -1, 0)])

    def merged(q: jax.Array) -> jax.Array:
        """[E, ...] -> [1 + m, ...]: one value for the reward, one for each cost."""
        reward, cost = combine(q)
        return jnp.concatenate([reward[None], cost])

    def targets(params: Any, units: Units, batch: Transition, expect: Any, log_ratio: Any) -> jax.Array:
        """What the networks should say of the learned steps, and what they should if all they said was 1.

        Both [1 + m, B], one below the other.

        A cost ends with its episode as a reward does: a terminated state has no future cost. An episode cut by time
        goes on in the critics' eyes, so both bootstrap from its final observation.
        In units of the networks the signal is what exceeds the part of the level that a step earns, and the end of an
        episode is worth minus the level. No large number enters that would be subtracted later.
        """
        lead = (slice(None),) + (None,) * batch.reward.ndim
        inverse = jnp.where(units.scale > 0, 1 / jnp.where(units.scale > 0, units.scale, 1.0), 0.0)
        signal = (signals(batch) - (1 - gammas[lead]) * units.level[lead]) * inverse[lead]
        signal = jnp.concatenate([signal, jnp.zeros_like(signal)])
        nothing = jnp.concatenate([-units.level * inverse, jnp.zeros(1 + m)])
        discount = jnp.tile(gammas, 2)

        def following(values: jax.Array, terminated: jax.Array) -> jax.Array:
            values = jnp.concatenate([values, jnp.ones_like(values)])
            return jnp.where(terminated, nothing.reshape(-1, *[1] * terminated.ndim), values)

        never = jnp.zeros_like(batch.terminated)
        if config.n_step == 1:
            next_value = following(merged(expect(params, batch.next_obs)), batch.terminated)
            return jax.vmap(returns.td_target, (0, 0, None, 0))(signal, next_value, never, discount)
        size, length = batch.reward.shape
        if not config.retrace:
            # Only the state behind the last summed step is valued, so n steps cost no more than one.
            last = jnp.where(batch.ended.any(1), batch.ended.argmax(1), length - 1)
            rows = jnp.arange(size)
            next_value = following(merged(expect(params, batch.next_obs[rows, last])), batch.terminated[rows, last])
            bootstrapped = jnp.broadcast_to(next_value[..., None], signal.shape)
            sums = jax.vmap(lambda s, v, gamma: returns.n_step_target(s, v, never, batch.ended, gamma))
            return sums(signal, bootstrapped, discount)

        def unflat(x: jax.Array) -> jax.Array:
            return merged(x).reshape(1 + m, size, length)

        next_value = following(unflat(expect(params, _flat(batch.next_obs))), batch.terminated)
        q_taken = unflat(taken(params, _flat(batch.obs), _flat(batch.action)))
        q_taken = jnp.concatenate([q_taken, jnp.ones_like(q_taken)])
        ratio = jnp.zeros((size, length))
        if config.cut_traces:
            ratio = log_ratio(_flat(batch.obs), _flat(batch.action)).reshape(size, length) - batch.log_prob
        retrace = jax.vmap(
            lambda q, v, s, gamma: returns.retrace_target(
                q, v, s, never, batch.ended, ratio, gamma, config.retrace_lambda
            )
        )
        return retrace(q_taken, next_value, signal, discount).reshape(len(discount), size * length)

    def first_units(units: Units, batch: Transition) -> Units:
        """Units for signals that have none yet, from how the signal itself varies."""
        signal = signals(learned_steps(config, batch))
        return units._replace(scale=jnp.where(units.scale > 0, units.scale, signal.std(1)))

    def refined(units: Units, goal: jax.Array) -> tuple[Units, jax.Array]:
        """Units by what `targets` gives for one more batch, and the targets [1 + m, B] in these.

        The level is where the mean of the targets is the level itself. Raising it by 1 raises a target by what it would
        be if the networks said 1, so that a constant added to every reward is known after a batch instead of after a
        horizon of updates.
        """
        goal, bootstraps = jnp.split(goal, 2)
        batches = units.batches + (units.scale > 0)
        rate = jnp.maximum(UNIT_RATE, 1 / jnp.maximum(batches, 1))
        bootstrap = units.bootstrap + rate * (bootstraps.mean(1) - units.bootstrap)
        step = rate * goal.mean(1) / jnp.maximum(1 - bootstrap, 1e-3)
        goal = goal - step[:, None] * (1 - bootstraps)
        growth = jnp.sqrt(1 + rate * ((goal**2).mean(1) - 1))
        goal = goal / jnp.where(growth > 0, growth, 1.0)[:, None]
        return Units(units.level + units.scale * step, units.scale * growth, bootstrap, batches), goal

    def rescaled(params: Any, factor: jax.Array) -> Any:
        """Networks whose outputs are `factor` [1 + m] times what they were (van Hasselt et al. 2016)."""
        each = jnp.concatenate([jnp.repeat(factor[:1], rewards), jnp.repeat(factor[1:], costs)])
        return tuple(
            (*network[:-1], (network[-1][0] * each[i], network[-1][1] * each[i])) for i, network in enumerate(params)
        )

    def update(state: CriticState, batch: Transition, expect: Any, log_ratio: Any) -> tuple[CriticState, Scalars]:
        before = first_units(state.units, batch)
        goal = targets(state.target, before, batch, expect, log_ratio)
        units, goal = refined(before, goal)
        factor = jnp.where(units.scale > 0, before.scale / jnp.where(units.scale > 0, units.scale, 1.0), 1.0)
        goal = jnp.concatenate([jnp.repeat(goal[:1], rewards, 0), jnp.repeat(goal[1:], costs, 0)])  # [E, B]
        steps = learned_steps(config, batch)

        def loss(params: Any) -> tuple[jax.Array, jax.Array]:
            errors = ((taken(params, steps.obs, steps.action) - goal) ** 2).mean(1)
            return errors.sum(), errors  # members share no parameter: the sum gives each its own gradient

        (_, errors), gradient = jax.value_and_grad(loss, has_aux=True)(rescaled(state.params, factor))
        step, opt_state = optimizer.update(gradient, state.optimizer)
        params = optax.apply_updates(rescaled(state.params, factor), step)
        target = optax.incremental_update(params, rescaled(state.target, factor), 1 - config.polyak)
        info = {"critic/reward_loss": errors[:rewards].mean(), "critic/cost_loss": errors[rewards:].mean()}
        info |= {"critic/reward_level": units.level[0], "critic/reward_scale": units.scale[0]}
        info |= per_cost("critic/cost_level", units.level[1:]) | per_cost("critic/cost_scale", units.scale[1:])
        return CriticState(params, target, opt_state, units), info

    return Critics(init, values, combine, update)
