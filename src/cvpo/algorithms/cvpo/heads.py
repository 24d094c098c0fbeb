"""What a policy of CVPO is for each kind of action space: how it acts, proposes candidates and is fitted.

Shapes: B states, K candidates, d components of an action, c trust-region terms (2 for Gaussian, 1 for categorical).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from cvpo.algorithms.base import Key, Params, Portable, Spec
from cvpo.algorithms.cvpo.config import Config
from cvpo.algorithms.shared import networks, portable
from cvpo.algorithms.shared.distributions import (
    Choices,
    Gaussian,
    categorical_kl,
    choices_kl,
    draw_each,
    gaussian_kl_mean,
    gaussian_kl_scale,
    pick_each,
)


class Head(NamedTuple):
    """A policy as functions of its parameters.

    init(key) -> params
    distribution(params, obs [B, o]) -> a distribution
    act(params, obs [B, o], noise [B, a] | None) -> (action, log_prob)
    candidates(distribution, key, count) -> (actions [B, K, d] | None for all choices, log_prior [B, K])
    log_prob(params, obs, action) -> [B]
    log_probs(old, new, actions) -> the candidates' log densities [B, K] for the M-step, one array for each part fitted
    kls(old, new) -> [c]: mean KL(old || new) of each part that has a trust region of its own
    entropy(distribution) -> [B]
    portable(params) -> Portable
    """

    kl_names: tuple[str, ...]
    init: Callable[[Key], Params]
    distribution: Callable[[Params, jax.Array], Any]
    act: Callable[[Params, jax.Array, jax.Array | None], tuple[jax.Array, jax.Array]]
    candidates: Callable[[Any, Key, int], tuple[jax.Array | None, jax.Array]]
    log_prob: Callable[[Params, jax.Array, jax.Array], jax.Array]
    log_probs: Callable[[Any, Any, jax.Array | None], tuple[jax.Array, ...]]
    kls: Callable[[Any, Any], jax.Array]
    entropy: Callable[[Any], jax.Array]
    portable: Callable[[Params], Portable]


def make_head(config: Config, spec: Spec) -> Head:
    if spec.choices:
        return choices_head(spec, config.hidden)
    if spec.discrete:
        return categorical_head(spec, config.hidden)
    return gaussian_head(spec, config.hidden, config.full_covariance, config.initial_scale, config.min_scale)


def gaussian_head(
    spec: Spec, hidden: Sequence[int], full_covariance: bool, initial_scale: float, min_scale: float
) -> Head:
    def distribution(params: Params, obs: jax.Array) -> Gaussian:
        return networks.gaussian_apply(params, obs, spec.action_size, initial_scale, min_scale)

    def act(params: Params, obs: jax.Array, noise: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        policy = distribution(params, obs)
        action = policy.mean if noise is None else policy.shifted(noise[..., None, :])[..., 0, :]
        return action, policy.log_prob(action[..., None, :])[..., 0]

    def candidates(policy: Gaussian, key: Key, count: int) -> tuple[jax.Array, jax.Array]:
        # In mirrored pairs: the mean of the candidates is then exactly the policy's own. Otherwise its scatter is as
        # large as what the weights are to tell the M-step, and larger the more components an action has.
        drawn = policy.sample(key, (count + 1) // 2)
        mirrored = 2 * policy.mean[..., None, :] - drawn
        actions = jnp.concatenate([drawn, mirrored], axis=-2)[..., :count, :]
        return actions, jnp.full(actions.shape[:-1], -jnp.log(count))

    def log_probs(old: Gaussian, new: Gaussian, actions: jax.Array | None) -> tuple[jax.Array, ...]:
        # Decoupled as in the appendix: the mean is fitted at the old covariance and the covariance at the old mean,
        # so that neither can pay for the other's step.
        assert actions is not None
        mean, scale = Gaussian(new.mean, old.scale_tril), Gaussian(old.mean, new.scale_tril)
        return mean.log_prob(actions), scale.log_prob(actions)

    def kls(old: Gaussian, new: Gaussian) -> jax.Array:
        return jnp.stack([gaussian_kl_mean(old, new).mean(), gaussian_kl_scale(old, new).mean()])

    return Head(
        kl_names=("mean", "scale"),
        init=lambda key: networks.gaussian_init(key, spec.obs_size, spec.action_size, hidden, full_covariance),
        distribution=distribution,
        act=act,
        candidates=candidates,
        log_prob=lambda params, obs, action: distribution(params, obs).log_prob(action[..., None, :])[..., 0],
        log_probs=log_probs,
        kls=kls,
        entropy=lambda policy: policy.entropy(),
        portable=lambda params: portable.gaussian_policy(params, spec.action_size, initial_scale, min_scale),
    )


def categorical_head(spec: Spec, hidden: Sequence[int]) -> Head:
    distribution = networks.categorical_apply

    def act(params: Params, obs: jax.Array, noise: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        policy = distribution(params, obs)
        action = (policy.logits if noise is None else policy.logits + noise).argmax(-1)
        return action, policy.log_prob(action)

    return Head(
        kl_names=("policy",),
        init=lambda key: networks.mlp_init(key, (spec.obs_size, *hidden, spec.action_size), last_scale=0.01),
        distribution=distribution,
        act=act,
        candidates=lambda policy, key, count: (None, policy.log_probs),
        log_prob=lambda params, obs, action: distribution(params, obs).log_prob(action),
        log_probs=lambda old, new, actions: (new.log_probs,),
        kls=lambda old, new: categorical_kl(old, new).mean()[None],
        entropy=lambda policy: policy.entropy(),
        portable=portable.categorical_policy,
    )


def choices_head(spec: Spec, hidden: Sequence[int]) -> Head:
    """Several choices at once. Their combinations may be too many, so candidates are drawn as continuous ones are."""

    def distribution(params: Params, obs: jax.Array) -> Choices:
        return networks.choices_apply(params, obs, spec.choices)

    def act(params: Params, obs: jax.Array, noise: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        policy = distribution(params, obs)
        action = pick_each(policy.log_probs if noise is None else policy.log_probs + noise, spec.choices)
        return action, policy.log_prob(action)

    def candidates(policy: Choices, key: Key, count: int) -> tuple[jax.Array, jax.Array]:
        repeated = jnp.repeat(policy.log_probs[..., None, :], count, axis=-2)
        actions = draw_each(key, repeated, spec.choices)
        return actions, jnp.full(actions.shape[:-1], -jnp.log(count))

    def log_probs(old: Choices, new: Choices, actions: jax.Array | None) -> tuple[jax.Array, ...]:
        assert actions is not None
        return ((actions * new.log_probs[..., None, :]).sum(-1),)

    return Head(
        kl_names=("policy",),
        init=lambda key: networks.mlp_init(key, (spec.obs_size, *hidden, spec.action_size), last_scale=0.01),
        distribution=distribution,
        act=act,
        candidates=candidates,
        log_prob=lambda params, obs, action: distribution(params, obs).log_prob(action),
        log_probs=log_probs,
        kls=lambda old, new: choices_kl(old, new).mean()[None],
        entropy=lambda policy: policy.entropy(),
        portable=lambda params: portable.choices_policy(params, spec.choices),
    )
