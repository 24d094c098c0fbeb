"""The random numbers that actions are made of: drawn for a whole epoch, so that those of successive steps can be alike.

Shapes: H steps, N environments, a numbers for an action.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cvpo.algorithms.base import Key, Spec


def draw_noise(spec: Spec, key: Key, rows: tuple[int, ...], color: float = 0.0) -> Float[Array, "*rows a"]:
    """What `Algorithm.act` takes: Gumbel numbers for choices, otherwise normal ones of that color along the first axis.

    An epoch has rows (H, N).
    """
    if spec.discrete or spec.choices:
        return jax.random.gumbel(key, (*rows, spec.action_size))
    return colored_noise(key, (*rows, spec.action_size), color)


def colored_noise(key: Key, shape: tuple[int, ...], color: float) -> Float[Array, "H ..."]:
    """Standard normal numbers whose power along the first axis falls as 1 / frequency^color.

    A color of 0 is white noise, whose steps are independent, and 1 is pink. Each number alone is standard normal
    whatever the color. The constant part gets the power of the lowest frequency, as 1 / 0 is none.
    """
    white = jax.random.normal(key, shape)
    if color == 0:
        return white
    length = shape[0]
    waves = jnp.arange(length // 2 + 1)  # in an epoch
    amplitude = jnp.maximum(waves, 1.0) ** (-color / 2)
    # All but the constant and, in an even length, the fastest wave stand for two: that of the negative frequency too.
    twice = (waves > 0) & (2 * waves < length)
    amplitude /= jnp.sqrt((amplitude**2 * (1 + twice)).sum() / length)
    spectrum = jnp.fft.rfft(white, axis=0) * amplitude.reshape(-1, *[1] * (len(shape) - 1))
    return jnp.fft.irfft(spectrum, n=length, axis=0)
