"""The policy of the on-policy methods, and the settings that policy and value functions share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from cvpo.algorithms.base import Key, Portable, Spec
from cvpo.algorithms.config import OnPolicyConfig, require_at_least, require_positive, setting
from cvpo.algorithms.shared import networks
from cvpo.algorithms.shared.distributions import (
    Categorical,
    Choices,
    Gaussian,
    categorical_kl,
    choices_kl,
    gaussian_kl,
    pick_each,
)
from cvpo.algorithms.shared.portable import categorical_policy, choices_policy, plain_gaussian_policy

ACTIVATIONS: dict[str, networks.Activation] = {"tanh": jnp.tanh, "relu": jax.nn.relu}


@dataclass(frozen=True)
class PolicyConfig(OnPolicyConfig):
    """Settings of the policy and the value functions, common to the on-policy methods."""

    hidden: tuple[int, ...] = setting((64, 64), "training")
    """Widths of the hidden layers of every network."""
    activation: Literal["tanh", "relu"] = setting("tanh", "training")
    """Activation function of every network."""
    initial_scale: float = setting(0.6, "policy")
    """Standard deviation of a continuous policy at the start; actions span [-1, 1]."""
    minibatch_size: int = setting(500, "training")
    """Steps in one gradient step. A smaller rollout is one minibatch."""
    value_epochs: int = setting(10, "critics")
    """Passes over the rollout to fit the value functions."""
    value_clip: float | None = setting(None, "critics")
    """Largest change of a value in one iteration, in standard deviations of its targets. Default: no bound."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, 1, "minibatch_size", "value_epochs")
        require_positive(self, "initial_scale")
        if self.value_clip is not None:
            require_positive(self, "value_clip")


class PolicyParams(NamedTuple):
    network: networks.MLP  # the mean, or the logits of discrete choices
    log_scale: jax.Array | None  # [d], the same in every state; None if discrete


class StochasticPolicy(NamedTuple):
    """A stochastic policy as functions of its parameters.

    init(key) -> params
    distribution(params, obs [..., o]) -> Gaussian, Categorical or Choices
    act(params, obs [N, o], noise [N, a] | None) -> (action, log_prob [N])
    log_prob(distribution, action) -> [...]
    kl(old, new) -> [...]: KL(old || new) of two distributions
    portable(params) -> Portable
    """

    init: Callable[[Key], PolicyParams]
    distribution: Callable[[PolicyParams, jax.Array], Any]
    act: Callable[[PolicyParams, jax.Array, jax.Array | None], tuple[jax.Array, jax.Array]]
    log_prob: Callable[[Any, jax.Array], jax.Array]
    kl: Callable[[Any, Any], jax.Array]
    portable: Callable[[PolicyParams], Portable]


def make_policy(config: PolicyConfig, spec: Spec) -> StochasticPolicy:
    activation = ACTIVATIONS[config.activation]

    def init(key: Key) -> PolicyParams:
        network = networks.mlp_init(key, (spec.obs_size, *config.hidden, spec.action_size), last_scale=0.01)
        log_scale = None if spec.discrete or spec.choices else jnp.full(spec.action_size, jnp.log(config.initial_scale))
        return PolicyParams(network, log_scale)

    def distribution(params: PolicyParams, obs: jax.Array) -> Gaussian | Categorical | Choices:
        if spec.choices:
            return networks.choices_apply(params.network, obs, spec.choices, activation)
        out = networks.mlp_apply(params.network, obs, activation)
        if params.log_scale is None:
            return Categorical(out)
        # one factor [d, d] serves all states: what is computed from it is computed once
        return Gaussian(out, jnp.diag(scale(params.log_scale)))

    def scale(log_scale: jax.Array) -> jax.Array:
        return jnp.exp(log_scale) + networks.MIN_SCALE

    def portable(params: PolicyParams) -> Portable:
        if spec.choices:
            return choices_policy(params.network, spec.choices, config.activation)
        if params.log_scale is None:
            return categorical_policy(params.network, config.activation)
        return plain_gaussian_policy(params.network, scale(params.log_scale), config.activation)

    def log_prob(policy: Gaussian | Categorical | Choices, action: jax.Array) -> jax.Array:
        if isinstance(policy, Categorical | Choices):
            return policy.log_prob(action)
        return policy.log_prob(action[..., None, :])[..., 0]

    def act(params: PolicyParams, obs: jax.Array, noise: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        policy = distribution(params, obs)
        if isinstance(policy, Choices):
            action = pick_each(policy.log_probs if noise is None else policy.log_probs + noise, spec.choices)
        elif isinstance(policy, Categorical):
            action = (policy.logits if noise is None else policy.logits + noise).argmax(-1)
        else:
            action = policy.mean if noise is None else policy.shifted(noise[..., None, :])[..., 0, :]
        return action, log_prob(policy, action)

    kl = choices_kl if spec.choices else categorical_kl if spec.discrete else gaussian_kl
    return StochasticPolicy(init, distribution, act, log_prob, kl, portable)
