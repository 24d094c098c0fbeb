"""Constrained Variational Policy Optimization: the paper's EM method, off-policy.

One update: critics by TD; E-step, the best distribution over K candidate actions per state within a KL ball and the
cost limits; M-step, the policy fitted to it by weighted likelihood inside a trust region; Polyak averaging.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from cvpo.algorithms.base import Algorithm, Info, Key, Spec, Transition, first_episode_means
from cvpo.algorithms.config import require_at_least, require_between, require_positive
from cvpo.algorithms.cvpo import guarantees, mstep
from cvpo.algorithms.cvpo.estep.reach import reach
from cvpo.algorithms.cvpo.estep.solve import solve_estep
from cvpo.algorithms.cvpo.heads import categorical_head, gaussian_head
from cvpo.algorithms.offpolicy.critics import CriticConfig, CriticState, learned_steps, make_critics
from cvpo.algorithms.shared.pid import relative_excess
from cvpo.algorithms.shared.returns import threshold_factor


@dataclass(frozen=True)
class Config(CriticConfig):
    """Settings of CVPO."""

    particles: int = 16
    """Candidate actions per state in the E-step (a Discrete space uses all its choices)."""
    policy_states: int = 96
    """States of the batch that the E-step and the M-step work on; the critics learn from all."""
    kl_estep: float = 0.1
    """Bound ε₂ on KL(q ‖ old policy) in the E-step."""
    dual_batches: int = 8
    """Batches of states over which the E-step's dual is solved: the newest and those before it."""
    min_scale: float = 0.05
    """Smallest standard deviation of the policy."""
    per_state: bool = False
    """Solve one dual for each state instead of one for the batch; needs the critic's cost level."""
    cost_level: Literal["critic", "measured"] = "measured"
    """Where the level of the expected cost is taken from: the critic over replayed states (the paper), or the
    measured cost of recent episodes plus the change that the critic foresees."""
    limit_reserve: float = 0.25
    """Share of the limit that the measured level is kept away from it, as episodes scatter about their mean."""
    level_smoothing: float = 0.2
    """Weight of the newest epoch in the measured cost level."""
    level_gain: float = 0.5
    """Reduction of the cost asked for in an E-step, as a share of what the KL ball allows, for each limit that the
    measured level is above its target."""
    integral_gain: float = 0.05
    """Share that is added for each epoch and each limit (at most one) that the measured level is above its target, and
    taken away again below it."""
    level_bound: float = 0.9
    """Largest share that is asked for; the rest of the ball is left for the reward, which else is never found."""
    limit_start: float = 1.0
    """Factor on the cost limits at the start; it decays to 1."""
    limit_decay: float = 0.9
    """Decay per epoch of that factor's excess over 1."""
    mstep_iterations: int = 2
    """Gradient steps of the policy per update."""
    policy_learning_rate: float = 3e-4
    max_gradient_norm: float | None = None
    """Clip the policy's gradient to this norm."""
    kl_constraint: bool = True
    """Hold the policy in the M-step's trust region; False is the paper's ablation."""
    kl_mean: float = 0.015
    """Trust region of the policy's mean (of the whole policy if it is categorical)."""
    kl_scale: float = 0.001
    """Trust region of the policy's covariance."""
    mean_dual_learning_rate: float = 1.0
    scale_dual_learning_rate: float = 100.0
    max_dual: float = 30.0
    """Upper bound of the trust-region multipliers: after a spike they fall slowly, and meanwhile nothing moves."""
    enforce_trust_region: bool = False
    """Step back towards the old policy whenever the M-step leaves its trust region."""
    policy_polyak: float = 0.95
    """Weight of the old target policy in each averaging step. The trust region is around the target, so this and the
    bounds set the pace of learning."""
    full_covariance: bool = True
    """A full covariance matrix; False: a diagonal one."""
    initial_scale: float = 0.5
    """Standard deviation of the policy at the start; actions span [-1, 1]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, 1, "particles", "policy_states", "mstep_iterations", "limit_start")
        require_at_least(self, 0, "integral_gain")
        require_positive(
            self, "kl_estep", "kl_mean", "kl_scale", "policy_learning_rate", "mean_dual_learning_rate",
            "scale_dual_learning_rate", "max_dual", "initial_scale", "level_bound", "level_gain",
        )  # fmt: skip
        require_between(self, 0.0, 1.0, "limit_reserve", "level_smoothing", "limit_decay", "policy_polyak")
        if self.max_gradient_norm is not None:
            require_positive(self, "max_gradient_norm")
        if self.per_state and self.cost_level == "measured":
            raise ValueError("per_state needs cost_level critic: a measured level is one of the batch, not of a state")


class State(NamedTuple):
    critics: CriticState
    actor: Any
    target_actor: Any  # the old policy θ_i of both steps, averaged slowly
    optimizer: optax.OptState
    kl_duals: jax.Array  # [c] β_μ, β_Σ
    pool: tuple[jax.Array, jax.Array]  # [1 + m, P, B, K] values and [P, B, K] log prior of the last P batches
    dual: tuple[jax.Array, jax.Array]  # the last E-step's (η, λ [m]): they move little between updates
    cost_level: jax.Array  # [m] smoothed measured cost per episode, NaN before the first
    cost_integral: jax.Array  # [m] share of the KL ball's reach that is asked for beyond that for the measured level
    epoch: jax.Array
    updates: jax.Array


def make(config: Config, spec: Spec) -> Algorithm:
    critics = make_critics(config, spec)
    if spec.discrete:
        head = categorical_head(spec, config.hidden)
    else:
        head = gaussian_head(spec, config.hidden, config.full_covariance, config.initial_scale, config.min_scale)
    optimizer = optax.adam(config.policy_learning_rate)
    if config.max_gradient_norm is not None:
        optimizer = optax.chain(optax.clip_by_global_norm(config.max_gradient_norm), optimizer)
    terms = len(head.kl_names)
    kl_limits = jnp.array([config.kl_mean, config.kl_scale])[:terms]
    dual_rates = jnp.array([config.mean_dual_learning_rate, config.scale_dual_learning_rate])[:terms]
    factor = threshold_factor(spec.episode_length, config.gamma)
    final_limits = jnp.array(spec.cost_limits)
    policy_states = min(config.policy_states, config.sequences * (config.n_step if config.retrace else 1))
    particles = spec.action_size if spec.discrete else config.particles

    def init(key: Key) -> State:
        critic_key, actor_key = jax.random.split(key)
        actor = head.init(actor_key)
        return State(
            critics=critics.init(critic_key),
            actor=actor,
            target_actor=actor,
            optimizer=optimizer.init(actor),
            kl_duals=jnp.ones(terms),
            pool=(
                jnp.zeros((1 + spec.num_costs, config.dual_batches, policy_states, particles)),
                jnp.full((config.dual_batches, policy_states, particles), -jnp.log(particles)),
            ),
            dual=(jnp.zeros(()), jnp.zeros(spec.num_costs)),
            cost_level=jnp.full(spec.num_costs, jnp.nan, jnp.float32),
            cost_integral=jnp.zeros(spec.num_costs),
            epoch=jnp.zeros((), jnp.int32),
            updates=jnp.zeros((), jnp.int32),
        )

    def limits_in(epoch: jax.Array) -> jax.Array:
        return final_limits * (1 + (config.limit_start - 1) * config.limit_decay**epoch)

    def excess(state: State) -> jax.Array:
        """How far the measured level is above its target [m], in limits; 0 before the first episode."""
        above = relative_excess(state.cost_level, limits_in(state.epoch), config.limit_reserve)
        return jnp.where(jnp.isnan(above), 0.0, above)

    def observe(state: State, rollout: Transition) -> State:
        cost = first_episode_means(rollout, rollout.costs)
        smooth = state.cost_level + config.level_smoothing * (cost - state.cost_level)
        level = jnp.where(jnp.isnan(state.cost_level), cost, smooth)
        state = state._replace(cost_level=level, epoch=state.epoch + 1)
        above = excess(state)
        asked = config.level_gain * above + state.cost_integral
        more = jnp.where(asked < config.level_bound, config.integral_gain * jnp.clip(above, 0.0, 1.0), 0.0)
        integral = jnp.where(above > 0, state.cost_integral + more, state.cost_integral * (1 + jnp.clip(above, -1.0, 0.0)))
        return state._replace(cost_integral=jnp.clip(integral, 0.0, config.level_bound))

    def shares(state: State) -> jax.Array:
        """Reduction of each cost [m] that is asked for, as a share of what the KL ball allows."""
        asked = jnp.clip(config.level_gain * excess(state) + state.cost_integral, -1.0, config.level_bound)
        together = jnp.sqrt((jnp.maximum(asked, 0.0) ** 2).sum())
        return jnp.where(asked > 0, asked * jnp.minimum(1.0, config.level_bound / jnp.maximum(together, 1e-9)), asked)

    def thresholds(state: State, units: Any, q_costs: jax.Array, log_prior: jax.Array) -> jax.Array:
        """What E_q[Q_c] must stay below [m], for centred q_costs [m, B, K] and the old policy's log weights."""
        limits = limits_in(state.epoch)
        if config.cost_level == "critic":
            scale = jnp.where(units.scale > 0, units.scale, 1.0)[1:]
            return (limits * factor - units.level[1:]) / scale
        reachable = jax.vmap(lambda q: reach(q, log_prior, config.kl_estep))(q_costs)
        share = shares(state)
        return jnp.where(jnp.isinf(limits) | (share <= -1.0), jnp.inf, -share * reachable)

    def update(state: State, batch: Transition, key: Key) -> tuple[State, Info]:
        next_key, candidate_key = jax.random.split(key)

        def expect(params: Any, obs: jax.Array) -> jax.Array:
            policy = head.distribution(state.target_actor, obs)
            actions, log_prior = head.candidates(policy, next_key, config.next_actions)
            return (critics.values(params, obs, actions) * jnp.exp(log_prior)).sum(-1)

        def log_prob(obs: jax.Array, action: jax.Array) -> jax.Array:
            return head.log_prob(state.target_actor, obs, action)

        critic_state, info = critics.update(state.critics, batch, expect, log_prob)
        obs = learned_steps(config, batch).obs
        spread = jnp.arange(policy_states) * len(obs) // policy_states  # over all sequences of the batch
        obs = obs[spread]

        # E-step
        old = head.distribution(state.target_actor, obs)
        actions, log_prior = head.candidates(old, candidate_key, config.particles)
        q_reward, q_costs = critics.combine(critics.values(critic_state.target, obs, actions))
        prior = jnp.exp(log_prior)
        cost_policy = (q_costs * prior).sum(-1).mean(-1)
        q_all = jnp.concatenate([q_reward[None], q_costs])
        if config.cost_level == "measured":
            q_all = q_all - (q_all * prior).sum(-1, keepdims=True)
        pool, pool_prior = state.pool
        slot = state.updates % config.dual_batches
        # until the pool is full, the newest batch stands for all
        fill = (jnp.arange(config.dual_batches) == slot) | (state.updates == 0)
        pool = jnp.where(fill[:, None, None], q_all[:, None], pool)
        pool_prior = jnp.where(fill[:, None, None], log_prior, pool_prior)
        flat = pool.reshape(1 + spec.num_costs, -1, particles)
        flat_prior = pool_prior.reshape(-1, particles)
        limits = thresholds(state, critic_state.units, flat[1:], flat_prior)
        warm_start = None if config.per_state else state.dual
        if config.per_state:
            estep = solve_estep(q_reward, q_costs, limits, config.kl_estep, log_prior, True, None)
            weights = estep.weights
        else:
            estep = solve_estep(flat[0], flat[1:], limits, config.kl_estep, flat_prior, False, warm_start)
            sign = jnp.ones(1 + spec.num_costs).at[1:].set(-1.0)
            weights = jax.nn.softmax(log_prior + jnp.tensordot(estep.tilt * sign, q_all, 1), axis=-1)

        # M-step
        def loss(actor: Any, duals: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array, jax.Array]]:
            likelihood, kls = head.fit(old, head.distribution(actor, obs), actions, weights)
            if config.kl_constraint:
                duals = mstep.dual_ascent(duals, jax.lax.stop_gradient(kls), kl_limits, dual_rates, config.max_dual)
            else:
                duals = jnp.zeros(terms)
            return duals @ (kls - kl_limits) - likelihood, (likelihood, kls, duals)

        def fit(carry: Any, _: None) -> tuple[Any, tuple[jax.Array, jax.Array]]:
            actor, opt_state, duals = carry
            (_, (likelihood, kls, duals)), gradient = jax.value_and_grad(loss, has_aux=True)(actor, duals)
            step, opt_state = optimizer.update(gradient, opt_state)
            return (optax.apply_updates(actor, step), opt_state, duals), (likelihood, kls)

        start = (state.actor, state.optimizer, state.kl_duals)
        (actor, opt_state, duals), (likelihood, _) = jax.lax.scan(fit, start, length=config.mstep_iterations)

        def kls_of(params: Any) -> jax.Array:
            return head.fit(old, head.distribution(params, obs), actions, weights)[1]

        kept = jnp.ones(())
        if config.enforce_trust_region:
            actor, kept = mstep.step_back(
                state.target_actor, actor, lambda params: (kls_of(params) / kl_limits).max(), 1.0
            )
        kls = kls_of(actor)
        target_actor = optax.incremental_update(actor, state.target_actor, 1 - config.policy_polyak)

        cost_target = (weights * q_costs).sum(-1).mean(-1)
        units = critic_state.units
        reward_target = (weights * q_reward).sum(-1).mean()
        info |= {
            "estep/eta": estep.eta.mean(),
            "estep/feasible": estep.feasible.mean(),
            "estep/kkt_residual_max": estep.kkt_residual.max(),
            "estep/duality_gap_max": estep.duality_gap.max(),
            "estep/kl": estep.kl.mean(),
            "estep/iterations": estep.iterations.mean(),
            "estep/elbo": reward_target - estep.eta.mean() * estep.kl.mean(),
            "mstep/likelihood": likelihood[-1],
            "mstep/kept": kept,
            "policy/entropy": head.entropy(old).mean(),
            "critic/reward_value": units.level[0] + units.scale[0] * (q_reward * prior).sum(-1).mean(),
        }
        for i, name in enumerate(head.kl_names):
            info |= {f"mstep/kl_{name}": kls[i], f"mstep/dual_{name}": duals[i]}
            info |= {f"mstep/outside_{name}": (kls[i] > kl_limits[i]).astype(jnp.float32)}
        multipliers = jnp.atleast_2d(estep.multipliers).mean(0)
        for i, end in enumerate(spec.cost_ends):
            info |= {
                f"estep/multiplier{end}": multipliers[i],
                f"estep/cost_policy{end}": cost_policy[i],
                f"estep/cost_target{end}": cost_target[i],
                f"estep/threshold{end}": limits[i],
                f"estep/share{end}": shares(state)[i],
                f"estep/cost_level{end}": state.cost_level[i],
                f"estep/cost_integral{end}": state.cost_integral[i],
            }
        dual = state.dual if config.per_state else (estep.eta, estep.multipliers)
        new = state._replace(
            critics=critic_state, actor=actor, target_actor=target_actor, optimizer=opt_state, kl_duals=duals, dual=dual,
            pool=(pool, pool_prior), updates=state.updates + 1,
        )
        return new, info

    def describe() -> str:
        if config.cost_level == "measured":
            asked = f"E-steps ask for at most {config.level_bound:.0%} of what a KL of {config.kl_estep:g} can save"
            if spec.num_costs == 1 and config.level_bound <= 1:
                return f"{asked} of the cost, so they have a solution"
            return f"{asked} of each cost, which may have no solution"
        if not config.kl_constraint:
            return "M-step without a trust region: none of the paper's guarantees applies"
        line = guarantees.describe(config.kl_mean, config.kl_scale, config.kl_estep, gaussian=not spec.discrete)
        if config.enforce_trust_region:
            return line
        return f"{line}; multipliers alone let M-steps out at times, see mstep/outside"

    return Algorithm(init, lambda state: state.actor, head.act, update, observe, describe)
