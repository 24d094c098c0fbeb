"""Running a policy in environments: one epoch of training episodes, or an evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cvpo.algorithms.base import Algorithm, Spec, Transition, in_first_episode
from cvpo.algorithms.shared.distributions import pick_each
from cvpo.envs.adapter import Environments
from cvpo.errors import UserError

# (params, obs [N, D], noise [N, a] | None) -> (action, log_prob)
Act = Callable[[Any, np.ndarray, Any], tuple[jax.Array, jax.Array]]
Progress = Callable[[float], None]


class Diverged(UserError, RuntimeError):
    """A learner whose policy is no longer made of numbers."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"learning diverged: {what} is not finite. The epochs before are saved, but would diverge "
            "again if resumed; start a run with smaller learning rates, or look for rewards and costs of extreme size"
        )


def make_act(algorithm: Algorithm) -> Act:
    """The policy as one compiled call. Without noise its action is the deterministic one.

    The `log_prob` of an action without noise is that of the policy with noise, as if it had been drawn, so that Retrace
    does not cut what follows.
    """

    @jax.jit
    def act(params: Any, obs: jax.Array, noise: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        return algorithm.act(params, obs, noise)

    return act


def make_random_act(spec: Spec) -> Act:
    """Uniformly random actions made of the same noise, in place of a policy that knows nothing yet."""

    @jax.jit
    def act(params: Any, obs: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        if spec.choices:
            return pick_each(noise, spec.choices), jnp.full(obs.shape[:1], -np.log(spec.choices).sum())
        if spec.discrete:
            return noise.argmax(-1), jnp.full(obs.shape[:1], -np.log(spec.action_size))
        action = 2 * jax.scipy.special.ndtr(noise) - 1
        return action, jnp.full(obs.shape[:1], -spec.action_size * np.log(2.0))

    return act


def collect(
    environments: Environments, act: Act, params: Any, noise: Any, seeds: np.ndarray, progress: Progress
) -> Transition:
    """One epoch: every environment starts anew from its seed and runs for one episode's length; [H, N] of NumPy arrays.

    The actions of each step are made of one row of the noise [H, N, a].

    An environment whose episode terminates early begins another, which the epoch's end may cut. A vector environment
    may need a step to begin it, in which it does not act: such steps are left out, and made up for at the end.
    """
    obs = environments.reset(seeds)
    horizon, envs = environments.episode_length, np.arange(environments.count)
    rollout: tuple[np.ndarray, ...] = ()
    filled = np.zeros(environments.count, int)  # steps of each environment so far
    time = 0
    while filled.min() < horizon:
        action, log_prob = jax.device_get(act(params, obs, noise[time % horizon]))
        require_numbers(action, log_prob)
        step = environments.step(action)
        fields = (obs, action, log_prob, step.reward, step.costs, step.next_obs, step.terminated, step.ended)
        rollout = rollout or tuple(np.empty((horizon, *field.shape), field.dtype) for field in fields)
        kept = step.acted & (filled < horizon)
        for array, field in zip(rollout, fields, strict=True):
            array[filled[kept], envs[kept]] = field[kept]
        filled += kept
        obs = step.obs
        if time % 32 == 0:
            progress(filled.min() / horizon)
        time += 1
    return Transition(*rollout)  # type: ignore[arg-type]


def evaluate_policy(
    environments: Environments, act: Act, params: Any, seeds: np.ndarray, progress: Progress = lambda fraction: None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One episode for each seed with the deterministic policy: returns [E], costs [E, m], lengths [E].

    Where there are fewer environments than seeds they run several rounds.
    """
    count = environments.count
    rounds = [np.resize(seeds[i : i + count], count) for i in range(0, len(seeds), count)]  # the last one filled up
    each = []
    for i, some in enumerate(rounds):

        def show(fraction: float, done: int = i) -> None:
            progress((done + fraction) / len(rounds))

        each.append(_evaluate_round(environments, act, params, some, show))
    reward, costs, length = (np.concatenate(parts)[: len(seeds)] for parts in zip(*each, strict=True))
    return reward, costs, length


def _evaluate_round(
    environments: Environments, act: Act, params: Any, seeds: np.ndarray, progress: Progress
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first episode in each environment."""
    obs = environments.reset(seeds)
    reward, costs = np.zeros(environments.count), np.zeros((environments.count, environments.num_costs))
    length = np.zeros(environments.count, int)
    running = np.ones(environments.count, bool)
    for time in range(environments.episode_length):
        action, log_prob = jax.device_get(act(params, obs, None))
        require_numbers(action, log_prob)
        step = environments.step(action)
        reward += running * step.reward
        costs += running[:, None] * step.costs
        length += running
        running &= ~step.ended
        if not running.any():
            break
        obs = step.obs
        if time % 32 == 0:
            progress(time / environments.episode_length)
    return reward, costs, length


def require_numbers(action: np.ndarray, log_prob: np.ndarray) -> None:
    """Before an environment sees them, which else would be blamed. Of a choice only its probability can be wrong."""
    if not np.isfinite(action).all() or np.isnan(log_prob).any():
        raise Diverged("an action of the policy")


def episode_statistics(rollout: Transition) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return [N], costs [N, m] and length [N] of each environment's first episode: `first_episode_means` says why."""
    first = in_first_episode(rollout.ended)
    reward = np.where(first, rollout.reward, 0.0).sum(0, dtype=np.float64)
    costs = np.where(first[..., None], rollout.costs, 0.0).sum(0, dtype=np.float64)
    return reward, costs, first.sum(0)
