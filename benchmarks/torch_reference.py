"""CVPO's update as one would write it in eager PyTorch, with SciPy's SLSQP for the dual.

The maths are those of `cvpo.algorithms.cvpo` with the preset "paper": Gaussian policy with a full covariance, one cost
whose cost signal is the critic's, one-step targets. B states, K particles, d components of an action, E critics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch.nn.functional import linear, relu, softplus

from cvpo.algorithms.base import Spec, Transition
from cvpo.algorithms.cvpo.config import Config
from cvpo.algorithms.cvpo.learner import State
from cvpo.algorithms.shared.networks import MIN_SCALE
from cvpo.algorithms.shared.returns import threshold_factor

Tensor = torch.Tensor
Layers = list[Tensor]  # weight [out, in], bias, weight, bias, ...


class TorchReference:
    """A learner that starts from a state of `cvpo` and draws its batches from the same replay."""

    def __init__(self, config: Config, spec: Spec, state: State, storage: Transition):
        self.config, self.rewards = config, config.reward_critics
        self.cost_limit = spec.cost_limits[0] * threshold_factor(spec.episode_length, config.gamma)
        self.replay = [torch.from_numpy(np.array(x)).flatten(0, 2) for x in storage]
        self.critics = [_layers(network) for network in state.critics.params]
        self.actor = _layers(state.policy.actor)
        self.target_critics = [_copy(network) for network in self.critics]
        self.target_actor = _copy(self.actor)
        for parameter in (*self.actor, *_flat(self.critics)):
            parameter.requires_grad_()
        self.critic_optimizer = torch.optim.Adam(_flat(self.critics), lr=config.critic_learning_rate)
        self.actor_optimizer = torch.optim.Adam(self.actor, lr=config.policy_learning_rate)
        self.kl_duals = torch.ones(2)
        self.kl_limits = torch.tensor([config.kl_mean, config.kl_scale])
        self.dual_rates = torch.tensor([config.mean_dual_learning_rate, config.scale_dual_learning_rate])
        self.dual = np.array([1.0, 1.0])  # the last E-step's (η, λ), where the next search starts

    def learn(self, updates: int) -> None:
        for _ in range(updates):
            rows = torch.randint(len(self.replay[0]), (self.config.batch_size,))
            self.update(Transition(*(x[rows] for x in self.replay)))

    def update(self, batch: Any, normal: Callable[..., Tensor] = torch.randn) -> None:
        """One update with a batch of tensors; `normal` draws the noise of the actions."""
        self._critic_step(batch, normal)

        # E-step
        with torch.no_grad():
            old_mean, old_tril = self._policy(self.target_actor, batch.obs)
            actions = _sample(old_mean, old_tril, normal, self.config.particles)
            q_reward, q_cost = self._values(self.target_critics, batch.obs, actions)
            weights = torch.from_numpy(self._estep(q_reward.double().numpy(), q_cost.double().numpy())).float()

        # M-step
        for _ in range(self.config.mstep_iterations):
            mean, tril = self._policy(self.actor, batch.obs)
            likelihood = (weights * (_log_prob(mean, old_tril, actions) + _log_prob(old_mean, tril, actions))).sum(-1)
            kl_mean = 0.5 * _whiten(old_tril, (mean - old_mean)[:, None]).square().sum((-2, -1))
            excess = torch.linalg.solve_triangular(tril, old_tril - tril, upper=False)
            growth = excess.diagonal(dim1=-2, dim2=-1)
            kl_scale = 0.5 * excess.square().sum((-2, -1)) + (growth - growth.log1p()).sum(-1)
            kls = torch.stack([kl_mean.mean(), kl_scale.mean()])
            self.kl_duals -= self.dual_rates * (self.kl_limits - kls.detach())
            self.kl_duals.clamp_(0.0, self.config.max_dual)
            self.actor_optimizer.zero_grad()
            (self.kl_duals @ (kls - self.kl_limits) - likelihood.mean()).backward()
            self.actor_optimizer.step()
        _average(self.target_actor, self.actor, self.config.policy_polyak)

    def _critic_step(self, batch: Any, normal: Callable[..., Tensor]) -> None:
        with torch.no_grad():
            actions = _sample(*self._policy(self.target_actor, batch.next_obs), normal, 1)
            going_on = self.config.gamma * ~batch.terminated
            q_reward, q_cost = self._values(self.target_critics, batch.next_obs, actions)
            reward_goal = batch.reward + going_on * q_reward[:, 0]
            cost_goal = batch.costs[:, 0] + going_on * q_cost[:, 0]
        loss = torch.zeros(())
        for i, critic in enumerate(self.critics):
            goal = reward_goal if i < self.rewards else cost_goal
            loss = loss + (_value(critic, batch.obs, batch.action[:, None])[:, 0] - goal).square().mean()
        self.critic_optimizer.zero_grad()
        loss.backward()
        self.critic_optimizer.step()
        _average(_flat(self.target_critics), _flat(self.critics), self.config.polyak)

    def _values(self, critics: list[Layers], obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """The smallest reward value and the mean cost value [B, K] of actions [B, K, d]."""
        q = torch.stack([_value(critic, obs, actions) for critic in critics])
        return q[: self.rewards].amin(0), q[self.rewards :].mean(0)

    def _policy(self, actor: Layers, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Mean [B, d] and Cholesky factor [B, d, d]."""
        out = _forward(actor, obs)
        size, scale = self.replay[1].shape[-1], self.config.initial_scale
        shift = np.log(np.expm1(scale)).item()
        tril = torch.diag_embed(softplus(out[:, size : 2 * size] + shift) + MIN_SCALE)
        rows, columns = torch.tril_indices(size, size, -1)
        below = torch.zeros_like(tril)
        below[:, rows, columns] = scale * out[:, 2 * size :]
        return torch.tanh(out[:, :size]), tril + below

    def _estep(self, q_reward: np.ndarray, q_cost: np.ndarray) -> np.ndarray:
        """Weights [B, K] at the minimum of the dual of Theorem 1, as SLSQP finds it in at most ten iterations."""

        def tilted(eta: float, multiplier: float) -> tuple[np.ndarray, float]:
            logits = (q_reward - multiplier * q_cost) / eta
            top = logits.max(-1, keepdims=True)
            weights = np.exp(logits - top)
            mass = weights.sum(-1, keepdims=True)
            return weights / mass, float((np.log(mass / weights.shape[-1]) + top).mean())

        def dual(x: np.ndarray) -> tuple[float, np.ndarray]:
            eta, multiplier = x
            weights, log_partition = tilted(eta, multiplier)
            reward, cost = (float((weights * q).sum(-1).mean()) for q in (q_reward, q_cost))
            value = eta * (self.config.kl_estep + log_partition) + multiplier * self.cost_limit
            slope = self.config.kl_estep + log_partition - (reward - multiplier * cost) / eta
            return value, np.array([slope, self.cost_limit - cost])

        bounds = [(1e-6, None), (0.0, None)]
        found = minimize(dual, self.dual, jac=True, method="SLSQP", bounds=bounds, tol=1e-3, options={"maxiter": 10})
        self.dual = np.maximum(found.x, (1e-6, 0.0))
        return tilted(*self.dual)[0]


def _forward(layers: Layers, x: Tensor) -> Tensor:
    for i in range(0, len(layers) - 2, 2):
        x = relu(linear(x, layers[i], layers[i + 1]))
    return linear(x, layers[-2], layers[-1])


def _value(critic: Layers, obs: Tensor, actions: Tensor) -> Tensor:
    """Values [B, K] of actions [B, K, d]; the state's half of the first layer once per state, as in `cvpo`."""
    weight, bias, *rest = critic
    split = obs.shape[-1]
    first = linear(obs, weight[:, :split], bias)[:, None] + linear(actions.clamp(-1.0, 1.0), weight[:, split:])
    return _forward(rest, relu(first))[..., 0]


def _sample(mean: Tensor, tril: Tensor, normal: Callable[..., Tensor], count: int) -> Tensor:
    return mean[:, None] + normal(len(mean), count, mean.shape[-1]) @ tril.mT


def _whiten(tril: Tensor, rows: Tensor) -> Tensor:
    """tril⁻¹ x for each row x: [B, d, d] and [B, K, d]."""
    return torch.linalg.solve_triangular(tril, rows.mT, upper=False)


def _log_prob(mean: Tensor, tril: Tensor, actions: Tensor) -> Tensor:
    """Log density [B, K], less a constant."""
    white = _whiten(tril, actions - mean[:, None])
    return -0.5 * white.square().sum(-2) - tril.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True)


def _layers(network: Any) -> Layers:
    return [torch.from_numpy(np.array(x.T)) for layer in network for x in layer]


def _copy(layers: Layers) -> Layers:
    return [x.clone() for x in layers]


def _flat(networks: list[Layers]) -> Layers:
    return [x for network in networks for x in network]


@torch.no_grad()
def _average(targets: Layers, parameters: Layers, keep: float) -> None:
    torch._foreach_lerp_(targets, parameters, 1 - keep)
