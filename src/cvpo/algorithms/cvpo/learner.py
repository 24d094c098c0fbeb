"""Constrained Variational Policy Optimization: the paper's EM method, off-policy.

One update: critics by TD; cost control, which reduction of the cost is requested; E-step, the best distribution over
candidate actions within a KL ball and that request; M-step, the policy fitted to it inside a trust region; averaging.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from cvpo.algorithms.base import Algorithm, Key, Params, Sample, Spec, Transition, UpdateMetrics
from cvpo.algorithms.cvpo import cost_control, guarantees
from cvpo.algorithms.cvpo.config import Config
from cvpo.algorithms.cvpo.estep import pool as pools
from cvpo.algorithms.cvpo.estep.candidates import Values, centred, draw_candidates
from cvpo.algorithms.cvpo.estep.solve import EStep, solve_estep, tilted_weights
from cvpo.algorithms.cvpo.heads import make_head
from cvpo.algorithms.cvpo.metrics import update_metrics
from cvpo.algorithms.cvpo.mstep import PolicyState, fit_policy, init_policy
from cvpo.algorithms.offpolicy.critics import CriticState, Units, make_critics


class State(NamedTuple):
    critics: CriticState
    policy: PolicyState
    target_actor: Params  # the old policy θ_i of both steps, averaged slowly
    pool: pools.Pool  # what the E-step's dual is solved over
    solved: Solved  # the last E-step over the pool
    cost_control: cost_control.CostControl


class Solved(NamedTuple):
    """What was requested of an E-step, and its solution."""

    request: cost_control.Request
    estep: EStep


def make(config: Config, spec: Spec) -> Algorithm:
    critics, head = make_critics(config, spec), make_head(config, spec)
    particles = spec.action_size if spec.discrete else config.particles

    def init(key: Key) -> State:
        critic_key, actor_key = jax.random.split(key)
        policy = init_policy(config, head, actor_key)
        return State(
            critics=critics.init(critic_key),
            policy=policy,
            target_actor=policy.actor,
            pool=pools.start(spec.num_costs, pools.batch_count(config, spec), config.learned_states, particles),
            solved=solved_nothing(),
            cost_control=cost_control.start(config, spec.num_costs),
        )

    def observe(state: State, rollout: Transition, noiseless: jax.Array) -> State:
        return state._replace(cost_control=cost_control.measure(config, spec, state.cost_control, rollout, noiseless))

    def update(state: State, sample: Sample, key: Key) -> tuple[State, UpdateMetrics]:
        next_key, candidate_key = jax.random.split(key)

        def expect(params: Any, obs: jax.Array) -> jax.Array:
            old = head.distribution(state.target_actor, obs)
            actions, log_prior = head.candidates(old, next_key, config.next_actions)
            return (critics.values(params, obs, actions) * jnp.exp(log_prior)).sum(-1)

        def log_prob(obs: jax.Array, action: jax.Array) -> jax.Array:
            return head.log_prob(state.target_actor, obs, action)

        critic_state, critic_metrics = critics.update(state.critics, sample.steps, expect, log_prob)
        candidates = draw_candidates(
            config, head, critics, critic_state.target, state.target_actor, sample.states, candidate_key
        )
        compared = centred(candidates) if config.cost_signal == "measured" else candidates
        if config.per_state:
            pool = state.pool  # stays empty: every state has a dual of its own
            solved = solve(state.cost_control, critic_state.units, compared.values, None)
            weights = solved.estep.weights
        else:
            pool = pools.add(state.pool, compared)
            # Multipliers move little from one update to the next.
            last = state.solved.estep
            warm_start = (last.eta, last.multipliers)
            solved = jax.lax.cond(
                pools.is_due(state.pool),
                lambda: without_weights(solve(state.cost_control, critic_state.units, pool.values, warm_start)),
                lambda: state.solved,
            )
            weights = tilted_weights(solved.estep.tilt, *compared.values)
        mstep = fit_policy(config, head, state.policy, state.target_actor, candidates, weights)
        metrics = update_metrics(
            head,
            critic_metrics,
            state.cost_control,
            solved.request,
            critic_state.units,
            candidates,
            compared,
            solved.estep,
            weights,
            mstep,
        )
        new = state._replace(
            critics=critic_state,
            cost_control=cost_control.updated(state.cost_control),
            pool=pool,
            policy=mstep.policy,
            target_actor=optax.incremental_update(mstep.policy.actor, state.target_actor, 1 - config.policy_polyak),
            solved=state.solved if config.per_state else solved,
        )
        return new, metrics

    def solve(
        control: cost_control.CostControl, units: Units, values: Values, warm_start: tuple[jax.Array, jax.Array] | None
    ) -> Solved:
        q_reward, q_costs, log_prior = values
        request = cost_control.request(config, spec, control, units, q_costs, log_prior)
        estep = solve_estep(
            q_reward, q_costs, request.threshold, config.kl_estep, log_prior, config.per_state, warm_start
        )
        return Solved(request, estep)

    def solved_nothing() -> Solved:
        """In place of an E-step before the first one."""
        control, units = cost_control.start(config, spec.num_costs), Units(*[jnp.zeros(1 + spec.num_costs)] * 4)
        values = pools.start(spec.num_costs, 1, 1, particles).values
        # Only its shapes are asked for: nothing is compiled or solved at the start of a run.
        shapes = jax.eval_shape(lambda: solve(control, units, values, None))
        return without_weights(jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes))

    def without_weights(solved: Solved) -> Solved:
        return solved._replace(estep=solved.estep._replace(weights=jnp.zeros((0, particles))))

    def describe() -> str:
        return guarantees.describe(config, spec)

    return Algorithm(init, lambda state: state.policy.actor, head.act, update, observe, describe, head.portable)
