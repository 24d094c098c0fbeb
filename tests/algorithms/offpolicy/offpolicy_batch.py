"""Specs and random batches for tests of single off-policy updates."""

import dataclasses
import functools
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import optax
from samples import sample_of

from cvpo.algorithms.base import Algorithm, Sample, Spec, State, Transition

KEY = jax.random.key(0)
LENGTH, ENVS = 10, 4
WITH_NOISE = jnp.zeros(ENVS, bool)
TINY = {"hidden": (16,), "batch_size": 32, "envs": ENVS, "n_step": 1}


def spec(*cost_limits: float, discrete: bool = False) -> Spec:
    return Spec(
        obs_size=3, action_size=2, discrete=discrete, cost_limits=cost_limits or (np.inf,), episode_length=LENGTH
    )


@functools.cache
def compiled(make, config, *cost_limits: float) -> Algorithm:
    """An algorithm for `spec(*cost_limits)`; its update is compiled once, and quickly, as tests run it little.

    Its metrics come as the log has them: one dictionary.
    """
    algorithm = make(config, spec(*cost_limits))
    compiled_update = jax.jit(algorithm.update, compiler_options={"xla_backend_optimization_level": 0})

    def update(state: State, steps: Transition | Sample, key: jax.Array) -> tuple[State, dict]:
        state, metrics = compiled_update(state, sample_of(steps), key)
        return state, metrics.of(1)

    return algorithm._replace(update=update)


def batch(costs: int = 1, shape: tuple[int, ...] = (32,), seed: int = 0, dtype: type = np.float32) -> Transition:
    """Random steps; each constraint has a cost of its own."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        jnp.asarray,
        Transition(
            obs=rng.normal(size=(*shape, 3)).astype(dtype),
            action=rng.uniform(-0.9, 0.9, (*shape, 2)).astype(dtype),
            log_prob=rng.normal(size=shape).astype(dtype),
            reward=rng.normal(size=shape).astype(dtype),
            costs=np.abs(rng.normal(size=(costs, *shape)).astype(dtype)).transpose(*range(1, len(shape) + 1), 0),
            next_obs=rng.normal(size=(*shape, 3)).astype(dtype),
            terminated=rng.random(shape) < 0.1,
            ended=np.zeros(shape, bool),
        ),
    )


def rollout(*episode_cost: float) -> Transition:
    """One whole episode [H, N] of the given cost in each constraint."""
    steps = batch(len(episode_cost), (LENGTH, ENVS))
    costs = jnp.broadcast_to(jnp.array(episode_cost) / LENGTH, steps.costs.shape)
    return steps._replace(costs=costs, ended=steps.ended.at[-1].set(True))


def with_critics_of(state: State, donor: State, members: list[int]) -> State:
    """`state` with the critics of `donor` that have these numbers, and with its actor."""
    params = tuple(donor.critics.params[i] for i in members)
    return state._replace(critics=state.critics._replace(params=params, target=params), actor=donor.actor)


def assert_same(a, b, tolerance: float = 1e-6) -> None:
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance), a, b)


def some_differ(a, b) -> bool:
    return any(bool((x != y).any()) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def gradient_error(make, config, limit: float, episode_cost: float) -> float:
    """Relative difference between the step of the actor and central differences of its loss, in double precision.

    By plain gradient descent at a rate of 1 the step is minus the gradient, and the loss is among the metrics.
    """
    with jax.enable_x64(True), patch.object(optax, "adam", optax.sgd):
        algorithm = make(dataclasses.replace(config, policy_learning_rate=1.0), spec(limit))
        update = jax.jit(algorithm.update, compiler_options={"xla_backend_optimization_level": 0})
        state = algorithm.observe(algorithm.init(KEY), rollout(episode_cost), WITH_NOISE)
        state = jax.tree.map(lambda x: x.astype(jnp.float64) if x.dtype == jnp.float32 else x, state)
        assert state.penalty.multipliers[0] > 0
        return _gradient_error(update, state, sample_of(batch(dtype=np.float64)))


def _gradient_error(update, state: State, sample: Sample) -> float:
    gradient = jax.tree.map(lambda a, b: a - b, state.actor, update(state, sample, KEY)[0].actor)
    leaves, shape = jax.tree.flatten(gradient)
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(3):
        direction = shape.unflatten([jnp.asarray(rng.normal(size=leaf.shape)) for leaf in leaves])
        ends = [
            float(update(state._replace(actor=shifted(state.actor, direction, h)), sample, KEY)[1].mean["policy/loss"])
            for h in (1e-6, -1e-6)
        ]
        slope = sum(float((g * d).sum()) for g, d in zip(leaves, jax.tree.leaves(direction), strict=True))
        worst = max(worst, abs((ends[0] - ends[1]) / 2e-6 - slope) / abs(slope))
    return worst


def shifted(params, direction, size: float):
    return jax.tree.map(lambda p, d: p + size * d, params, direction)
