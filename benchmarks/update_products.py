"""The matrix products of one CVPO update and nothing else: no bias, rectifier, loss, optimiser or E-step.

They have the update's shapes and counts, forward and backward, and are chained as there, so that the compiler can
neither share nor drop one. B states, K particles.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp

from cvpo.algorithms.base import Spec
from cvpo.algorithms.cvpo.config import Config

Weights = tuple[jax.Array, ...]


def make_products(config: Config, spec: Spec, obs: jax.Array) -> Callable[[int], Any]:
    """A function that runs the products of `updates` updates in one compiled loop, on rows of obs [N, o]."""
    size, particles, acts = config.batch_size, config.particles, spec.action_size
    outputs = acts + acts * (acts + 1) // 2  # mean and Cholesky factor
    critics = config.reward_critics + config.cost_critics

    def weights(seed: int, *sizes: int) -> Weights:
        keys = jax.random.split(jax.random.key(seed), len(sizes) - 1)
        return tuple(jax.random.normal(k, s) / s[0] for k, s in zip(keys, pairwise(sizes), strict=True))

    # Each M-step iteration has weights of its own: six times the same product would be computed once.
    actors = [weights(i, spec.obs_size, *config.hidden, outputs) for i in range(config.mstep_iterations)]
    actor, reached = (weights(i, spec.obs_size, *config.hidden, outputs) for i in (100, 101))
    state_sides = [weights(200 + i, spec.obs_size, *config.hidden, 1) for i in range(critics)]
    action_sides = [weights(300 + i, acts, config.hidden[0]) for i in range(critics)]
    learned = [weights(400 + i, spec.obs_size, *config.hidden, 1) for i in range(critics)]
    actions = jax.random.normal(jax.random.key(500), (len(obs) * particles, acts))

    def one(i: jax.Array) -> Any:
        first, second = 2 * i % (len(obs) // size - 1), (2 * i + 1) % (len(obs) // size - 1)
        now = jax.lax.dynamic_slice_in_dim(obs, first * size, size)
        following = jax.lax.dynamic_slice_in_dim(obs, second * size, size)
        taken = jax.lax.dynamic_slice_in_dim(actions, first * size, size)
        candidates = jax.lax.dynamic_slice_in_dim(actions, first * size * particles, size * particles)

        done: list[Any] = [chain(actor, following), chain(actor, now), chain(reached, now)]
        for state_side, action_side, learned_side in zip(state_sides, action_sides, learned, strict=True):
            # the target critic at the next state, its particles, the critic's step
            done += [chain(state_side, following), chain(action_side, taken)]
            done += [now @ state_side[0], chain((*action_side, *state_side[1:]), candidates)]
            done += [with_gradient(learned_side, now), with_gradient(action_side, taken)]
        done += [with_gradient(parameters, now) for parameters in actors]
        return done

    @jax.jit
    def loop(updates: int) -> Any:
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(one, jnp.array(0)))
        return jax.lax.fori_loop(0, updates, lambda i, _: one(i), nothing)

    return loop


def chain(weights: Weights, x: jax.Array) -> jax.Array:
    for weight in weights:
        x = x @ weight
    return x


def with_gradient(weights: Weights, x: jax.Array) -> tuple[jax.Array, Weights]:
    """The products of a forward pass and those of its gradient by the weights."""
    out, pull_back = jax.vjp(lambda w: chain(w, x), weights)
    return out, pull_back(out)[0]
