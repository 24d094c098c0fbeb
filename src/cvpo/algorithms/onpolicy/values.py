"""The value functions of the on-policy methods: one network for the reward and one for each cost.

Shapes: B rows of a rollout, o observation size, m constraints; the reward and the m costs are one array [1 + m, ...].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from cvpo.algorithms.base import Key, Spec
from cvpo.algorithms.onpolicy.policy import ACTIVATIONS, PolicyConfig
from cvpo.algorithms.shared import networks

VALUE_SCALE_DECAY = 0.9  # the least ratio of a value function's scale to the one before it


class ValueState(NamedTuple):
    """A network for each signal, in units of its own: value = mean + scale · output.

    Networks learn numbers near 1 quickly and others slowly, and returns may have any size. Until the first targets set
    the units, the scale is 0 and so are all values.
    """

    params: tuple[networks.MLP, ...]
    optimizer: optax.OptState
    mean: jax.Array  # [1 + m]
    scale: jax.Array  # [1 + m]


class Values(NamedTuple):
    """The value functions of the reward and of each cost.

    init(key) -> ValueState
    predict(state, obs [B, o]) -> [1 + m, B]
    fit(state, obs [B, o], targets [1 + m, B], key) -> (ValueState, squared error [1 + m] over the targets' variance)
    """

    init: Callable[[Key], ValueState]
    predict: Callable[[ValueState, jax.Array], jax.Array]
    fit: Callable[[ValueState, jax.Array, jax.Array, Key], tuple[ValueState, jax.Array]]


def make_values(config: PolicyConfig, spec: Spec) -> Values:
    optimizer = optax.adam(config.value_learning_rate)
    activation = ACTIVATIONS[config.activation]
    signals = 1 + spec.num_costs

    def init(key: Key) -> ValueState:
        sizes = (spec.obs_size, *config.hidden, 1)
        params = tuple(networks.mlp_init(k, sizes) for k in jax.random.split(key, signals))
        return ValueState(params, optimizer.init(params), jnp.zeros(signals), jnp.zeros(signals))

    def outputs(params: tuple[networks.MLP, ...], obs: jax.Array) -> jax.Array:
        return jnp.stack([networks.mlp_apply(network, obs, activation)[..., 0] for network in params])

    def predict(state: ValueState, obs: jax.Array) -> jax.Array:
        return state.mean[:, None] + state.scale[:, None] * outputs(state.params, obs)

    def fit(state: ValueState, obs: jax.Array, targets: jax.Array, key: Key) -> tuple[ValueState, jax.Array]:
        state = rescale(state, targets)
        goals = (targets - state.mean[:, None]) / jnp.where(state.scale > 0, state.scale, 1.0)[:, None]
        before = outputs(state.params, obs)

        def loss(params: tuple[networks.MLP, ...], rows: jax.Array) -> tuple[jax.Array, jax.Array]:
            output, goal, old = outputs(params, obs[rows]), goals[:, rows], before[:, rows]
            squares = (output - goal) ** 2
            if config.value_clip is not None:
                clipped = old + jnp.clip(output - old, -config.value_clip, config.value_clip)
                squares = jnp.maximum(squares, (clipped - goal) ** 2)
            errors = squares.mean(1)
            return errors.sum(), errors  # networks share no parameter: the sum gives each its own gradient

        def step(carry: tuple, rows: jax.Array) -> tuple[tuple, jax.Array]:
            params, opt_state = carry
            (_, errors), gradient = jax.value_and_grad(loss, has_aux=True)(params, rows)
            change, opt_state = optimizer.update(gradient, opt_state)
            return (optax.apply_updates(params, change), opt_state), errors

        keys = jax.random.split(key, config.value_epochs)
        rows = jax.vmap(lambda k: minibatches(k, obs.shape[0], config.minibatch_size))(keys)  # [epochs, M, size]
        start = (state.params, state.optimizer)
        (params, opt_state), errors = jax.lax.scan(step, start, rows.reshape(-1, rows.shape[-1]))
        last_pass = errors[-rows.shape[1] :]
        return state._replace(params=params, optimizer=opt_state), last_pass.mean(0)

    return Values(init, predict, fit)


def rescale(state: ValueState, targets: jax.Array) -> ValueState:
    """The same value functions in the units of new targets [1 + m, B] (van Hasselt et al. 2016, Eq. 9).

    The scale falls slowly only: a cost that vanishes must not turn its own rounding errors into large numbers. The
    first units are taken as they are, since there are no values to keep.
    """
    mean = targets.mean(1)
    scale = jnp.maximum(targets.std(1), VALUE_SCALE_DECAY * state.scale)
    first = state.scale == 0
    safe = jnp.where(scale > 0, scale, 1.0)  # a signal that never varied has no unit yet
    factor = jnp.where(first, 1.0, state.scale / safe)
    shift = jnp.where(first, 0.0, (state.mean - mean) / safe)
    params = tuple(
        (*network[:-1], (network[-1][0] * factor[i], network[-1][1] * factor[i] + shift[i]))
        for i, network in enumerate(state.params)
    )
    return state._replace(params=params, mean=mean, scale=scale)


def minibatches(key: Key, rows: int, size: int) -> jax.Array:
    """Indices [M, size] of as many whole minibatches as `rows` in a random order give."""
    size = min(size, rows)
    return jax.random.permutation(key, rows)[: rows // size * size].reshape(-1, size)
