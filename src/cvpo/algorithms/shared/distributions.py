"""Action distributions as small pytrees: B leading axes, K particles, d components of an action."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

LOG_2PI = math.log(2 * math.pi)


class Gaussian(NamedTuple):
    """Multivariate normal with a Cholesky factor of its covariance."""

    mean: Float[Array, "*B d"]
    scale_tril: Float[Array, "*#B d d"]  # lower triangular, positive diagonal

    def sample(self, key: jax.Array, particles: int) -> Float[Array, "*B K d"]:
        """K draws for each mean."""
        shape = (*self.mean.shape[:-1], particles, self.mean.shape[-1])
        return self.shifted(jax.random.normal(key, shape, self.mean.dtype))

    def shifted(self, noise: Float[Array, "*B K d"]) -> Float[Array, "*B K d"]:
        """The draws that standard normal numbers stand for."""
        return self.mean[..., None, :] + jnp.einsum("...ij,...kj->...ki", self.scale_tril, noise)

    def log_prob(self, action: Float[Array, "*B K d"]) -> Float[Array, "*B K"]:
        """Log density of K actions for each mean."""
        white = whiten(self.scale_tril[..., None, :, :], action - self.mean[..., None, :])
        size = self.mean.shape[-1]
        return -0.5 * ((white**2).sum(-1) + size * LOG_2PI) - log_det(self.scale_tril)[..., None]

    def entropy(self) -> Float[Array, "*B"]:
        return 0.5 * self.mean.shape[-1] * (1 + LOG_2PI) + log_det(self.scale_tril)


class SquashedGaussian(NamedTuple):
    """tanh of a normal with independent components: actions strictly inside [-1, 1]."""

    mean: Float[Array, "*B d"]  # before the tanh
    scale: Float[Array, "*B d"]

    def sample_and_log_prob(self, key: jax.Array) -> tuple[Float[Array, "*B d"], Float[Array, "*B"]]:
        """One reparametrised draw and its log density."""
        return self.shifted(jax.random.normal(key, self.mean.shape, self.mean.dtype))

    def shifted(self, noise: Float[Array, "*B d"]) -> tuple[Float[Array, "*B d"], Float[Array, "*B"]]:
        """The draw that standard normal numbers stand for, and its log density."""
        raw = self.mean + self.scale * noise
        normal = -0.5 * (((raw - self.mean) / self.scale) ** 2 + LOG_2PI) - jnp.log(self.scale)
        # log(1 - tanh(x)^2) in a form that does not round to log(0) for large |x|
        correction = 2 * (math.log(2) - raw - jax.nn.softplus(-2 * raw))
        return jnp.tanh(raw), (normal - correction).sum(-1)


class Categorical(NamedTuple):
    """A distribution over n choices."""

    logits: Float[Array, "*B n"]

    @property
    def log_probs(self) -> Float[Array, "*B n"]:
        return jax.nn.log_softmax(self.logits)

    def log_prob(self, action: Int[Array, "*B"]) -> Float[Array, "*B"]:
        return jnp.take_along_axis(self.log_probs, action[..., None], axis=-1)[..., 0]

    def entropy(self) -> Float[Array, "*B"]:
        log_probs = self.log_probs
        return -(jnp.exp(log_probs) * log_probs).sum(-1)


class Choices(NamedTuple):
    """Several independent choices at once; an action is their one-hot vectors side by side, A numbers in all."""

    log_probs: Float[Array, "*B A"]  # normalised for each choice

    def log_prob(self, action: Float[Array, "*B A"]) -> Float[Array, "*B"]:
        return (action * self.log_probs).sum(-1)

    def entropy(self) -> Float[Array, "*B"]:
        return -(jnp.exp(self.log_probs) * self.log_probs).sum(-1)


def log_softmax_each(logits: Float[Array, "*B A"], sizes: Sequence[int]) -> Float[Array, "*B A"]:
    """Log probabilities of choices with `sizes` options each."""
    return jnp.concatenate([jax.nn.log_softmax(part) for part in _split(logits, sizes)], axis=-1)


def pick_each(scores: Float[Array, "*B A"], sizes: Sequence[int]) -> Float[Array, "*B A"]:
    """One-hot: the option with the highest score in each choice."""
    picked = [jax.nn.one_hot(part.argmax(-1), part.shape[-1]) for part in _split(scores, sizes)]
    return jnp.concatenate(picked, axis=-1)


def draw_each(key: jax.Array, log_probs: Float[Array, "*B A"], sizes: Sequence[int]) -> Float[Array, "*B A"]:
    """One-hot: each choice drawn by its probabilities, by the Gumbel trick."""
    return pick_each(log_probs + jax.random.gumbel(key, log_probs.shape), sizes)


def _split(x: jax.Array, sizes: Sequence[int]) -> list[jax.Array]:
    return jnp.split(x, list(itertools.accumulate(sizes))[:-1], axis=-1)


def log_det(tril: Float[Array, "*B d d"]) -> Float[Array, "*B"]:
    """Log determinant of a triangular factor."""
    return jnp.log(jnp.diagonal(tril, axis1=-2, axis2=-1)).sum(-1)


def whiten(tril: Float[Array, "*#B d d"], x: Float[Array, "*#B d"]) -> Float[Array, "*#B d"]:
    """tril⁻¹ x, by forward substitution.

    Unrolled over d: actions have few components, and a batched LAPACK call on thousands of tiny systems is slower.
    """
    rows: list[jax.Array] = []
    for i in range(x.shape[-1]):
        known = sum((tril[..., i, j] * rows[j] for j in range(i)), start=jnp.zeros_like(x[..., i]))
        rows.append((x[..., i] - known) / tril[..., i, i])
    return jnp.stack(rows, axis=-1)


# Divergences: all are KL(old || new), one for each leading index ----------------------------------------------------


def gaussian_kl(old: Gaussian, new: Gaussian) -> Float[Array, "*B"]:
    """KL(old || new) [...]."""
    return _half_square(new, old) + gaussian_kl_scale(old, new)


def gaussian_kl_mean(old: Gaussian, new: Gaussian) -> Float[Array, "*B"]:
    """C_μ [...]: the divergence if only the mean had moved, so at the old covariance.

    The paper writes the new covariance here but takes it from the target policy; that is what decouples the two parts.
    """
    return _half_square(old, new)


def gaussian_kl_scale(old: Gaussian, new: Gaussian) -> Float[Array, "*B"]:
    """C_Σ [...]: the divergence if only the covariance had moved.

    ½ (tr Σ⁻¹Σ_old - d + ln |Σ| / |Σ_old|), written with E = L⁻¹ L_old - 1 as ½ |E|² + Σ (E_ii - log(1 + E_ii)): trust
    regions near 1e-4 would drown in the rounding of the trace in float32.
    """
    columns = jnp.swapaxes(old.scale_tril - new.scale_tril, -1, -2)
    excess = whiten(new.scale_tril[..., None, :, :], columns)  # E transposed
    growth = jnp.diagonal(excess, axis1=-2, axis2=-1)
    return 0.5 * (excess**2).sum((-2, -1)) + (growth - jnp.log1p(growth)).sum(-1)


def categorical_kl(old: Categorical, new: Categorical) -> Float[Array, "*B"]:
    """KL(old || new) [...]."""
    log_old = old.log_probs
    return (jnp.exp(log_old) * (log_old - new.log_probs)).sum(-1)


def choices_kl(old: Choices, new: Choices) -> Float[Array, "*B"]:
    """KL(old || new) [...], the sum over the choices, as they are independent.

    The probabilities' difference sums to zero. With it the minimum is at new = old also if log probabilities are free
    variables, as the Fisher matrix needs: without it the divergence is linear in them and has no curvature.
    """
    p_old = jnp.exp(old.log_probs)
    return (p_old * (old.log_probs - new.log_probs) + jnp.exp(new.log_probs) - p_old).sum(-1)


def _half_square(centre: Gaussian, other: Gaussian) -> Float[Array, "*B"]:
    """½ Δᵀ Σ⁻¹ Δ [...] for the difference of the means and the covariance of `centre`."""
    return 0.5 * (whiten(centre.scale_tril, other.mean - centre.mean) ** 2).sum(-1)
