"""Observation scaling around any algorithm: running mean and deviation, part of the learner and of its policy."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from cvpo.algorithms.base import Algorithm, Key, Portable, Sample, Spec, Transition, UpdateMetrics, seen_through

CLIP = 10.0  # in deviations: an outlier must not blow up a network


class Moments(NamedTuple):
    rows: jax.Array  # how many were seen
    mean: jax.Array  # [D]
    square: jax.Array  # [D] sum of squared differences from the mean


def with_normalizer(inner: Algorithm, spec: Spec) -> Algorithm:
    """`inner`, seeing scaled observations; each epoch's observations enter the moments when it is observed."""

    def init(key: Key) -> tuple[Moments, Any]:
        return no_rows(spec.obs_size), inner.init(key)

    def scaled(moments: Moments, data: Transition | Sample) -> Any:
        return seen_through(lambda obs: scale(moments, obs), data)

    def act(params: tuple[Moments, Any], obs: jax.Array, noise: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        moments, rest = params
        return inner.act(rest, scale(moments, obs), noise)

    def observe(state: tuple[Moments, Any], rollout: Transition, noiseless: jax.Array) -> tuple[Moments, Any]:
        moments, rest = state
        moments = merge(moments, rollout.obs.reshape(-1, spec.obs_size))
        return moments, inner.observe(rest, scaled(moments, rollout), noiseless)

    def update(
        state: tuple[Moments, Any], data: Transition | Sample, key: Key
    ) -> tuple[tuple[Moments, Any], UpdateMetrics]:
        moments, rest = state
        rest, metrics = inner.update(rest, scaled(moments, data), key)
        return (moments, rest), metrics

    def portable(params: tuple[Moments, Any]) -> Portable:
        moments, rest = params
        assert inner.portable is not None
        description, arrays = inner.portable(rest)
        mean, deviation = scaling(moments)
        scales = {"observation/mean": mean, "observation/deviation": deviation}
        return Portable(description | {"observation_clip": CLIP}, arrays | scales)

    def policy(state: tuple[Moments, Any]) -> tuple[Moments, Any]:
        return state[0], inner.policy(state[1])

    return Algorithm(init, policy, act, update, observe, inner.describe, portable)


def no_rows(size: int) -> Moments:
    """Moments before any row of that size."""
    return Moments(jnp.zeros(()), jnp.zeros(size), jnp.zeros(size))


def scale(moments: Moments, obs: jax.Array) -> jax.Array:
    mean, deviation = scaling(moments)
    return jnp.clip((obs - mean) / deviation, -CLIP, CLIP)


def scaling(moments: Moments) -> tuple[jax.Array, jax.Array]:
    """Mean [D] and deviation [D] that observations are scaled by."""
    variance = moments.square / jnp.maximum(moments.rows, 1)
    # A component that never varied, up to the rounding of its mean, says nothing: whatever it is, it becomes 0.
    varied = variance > (1e-6 * moments.mean) ** 2
    return moments.mean, jnp.where(varied, jnp.sqrt(variance), jnp.finfo(variance.dtype).max)


def merge(moments: Moments, rows: jax.Array) -> Moments:
    """Moments of all rows seen so far [n, D], by the parallel form of Welford's update (Chan et al.)."""
    count = jnp.asarray(rows.shape[0], jnp.float32)
    mean = rows.mean(0)
    total = moments.rows + count
    shift = mean - moments.mean
    return Moments(
        total,
        moments.mean + shift * count / total,
        moments.square + ((rows - mean) ** 2).sum(0) + shift**2 * moments.rows * count / total,
    )
