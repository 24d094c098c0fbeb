"""Episodes of a policy outside of training: whole ones, each from its own seed, many at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cvpo.envs.adapter import Environments
from cvpo.envs.sources import EnvSource
from cvpo.errors import BadValue
from cvpo.inputs import LARGEST, whole_number
from cvpo.machine import usable_cores
from cvpo.policies.policy import Policy

AT_ONCE = 50  # environments side by side; more gain little and take more memory
Progress = Callable[[float], None]


class Episodes(NamedTuple):
    """n whole episodes, m costs."""

    seeds: np.ndarray  # [n]
    reward: np.ndarray  # [n]
    costs: np.ndarray  # [n, m]
    length: np.ndarray  # [n] steps
    parts: dict[str, np.ndarray]  # [n] each: what the environment says its cost consists of


class Moment(NamedTuple):
    """One step of all environments of a batch, for whoever looks at every step."""

    batch: int
    time: int
    running: np.ndarray  # [N] whose episode this step belongs to
    obs: np.ndarray  # [N, D] before the step
    action: np.ndarray  # [N, ...] in [-1, 1], or choices
    reward: np.ndarray  # [N]
    costs: np.ndarray  # [N, m]
    parts: dict[str, np.ndarray]
    next_obs: np.ndarray  # [N, D]
    terminated: np.ndarray  # [N]
    place: np.ndarray | None  # [N, 2] of the robots before the step, in a built-in task


def episode_seeds(seed: int, count: int) -> np.ndarray:
    """A seed for each episode; more episodes of the same `seed` begin with the same ones."""
    return np.random.SeedSequence(whole_number("seed", seed, 0, LARGEST)).generate_state(count)


def open_environments(
    policy: Policy, env: EnvSource | None, episodes: int, threads: int | None = None, trust: bool = False
) -> Environments:
    """Environments for so many episodes: those of the policy's training, or others that it fits."""
    source = env if env is not None else policy.trained_on(trust)
    trained, config = policy.trained, policy.trained["config"]
    limits = trained["cost_limits"]
    environments = Environments(
        source,
        min(episodes, AT_ONCE),
        num_costs=len(limits),
        cost_required=any(math.isfinite(limit) for limit in limits),
        cost_keys=config["cost_keys"],
        episode_length=config["episode_length"],
        processes=config["processes"],
        timeout=config.get("env_timeout"),
        threads=threads or usable_cores(),  # results do not depend on it
    )
    theirs = {"observations": environments.observation, "actions": environments.action}
    ours = {"observations": policy.description["observation"]["layout"], "actions": policy.description["action"]}
    for what, layout in ours.items():
        if theirs[what] != layout:
            environments.close()
            raise BadValue(f"the policy was trained on {what} {layout}, {environments.name} has {theirs[what]}")
    return environments


def run_episodes(
    policy: Policy,
    environments: Environments,
    seeds: np.ndarray,
    deterministic: bool = True,
    progress: Progress = lambda fraction: None,
    watch: Callable[[Moment], None] | None = None,
) -> Episodes:
    """One episode from each seed, in batches of as many as there are environments."""
    count, batches = environments.count, math.ceil(len(seeds) / environments.count)
    # the last batch is filled up: every episode then has the same numbers whatever the batch's size
    padded = np.resize(seeds, batches * count)
    runs = [
        _run_batch(
            policy, environments, batch, padded[batch * count :][:count], deterministic, progress, batches, watch
        )
        for batch in range(batches)
    ]
    names = sorted({name for run in runs for name in run.parts})
    zeros = np.zeros(count)
    return Episodes(
        seeds,
        reward=_joined([run.reward for run in runs], len(seeds)),
        costs=_joined([run.costs for run in runs], len(seeds)),
        length=_joined([run.length for run in runs], len(seeds)),
        parts={name: _joined([run.parts.get(name, zeros) for run in runs], len(seeds)) for name in names},
    )


def _joined(pieces: Sequence[Any], count: int) -> np.ndarray:
    return np.concatenate(pieces)[:count]


def _run_batch(
    policy: Policy,
    environments: Environments,
    batch: int,
    seeds: np.ndarray,
    deterministic: bool,
    progress: Progress,
    batches: int,
    watch: Callable[[Moment], None] | None,
) -> Episodes:
    obs = environments.reset(seeds)
    reward, costs = np.zeros(len(seeds)), np.zeros((len(seeds), environments.num_costs))
    length, running = np.zeros(len(seeds), int), np.ones(len(seeds), bool)
    parts: dict[str, np.ndarray] = {}
    for time in range(environments.episode_length):
        action = policy.act(obs, deterministic)
        if watch is not None:
            place = environments.places()
        step = environments.step(action)
        if watch is not None:
            now = (batch, time, running.copy(), obs, action, step.reward, step.costs, step.parts)
            watch(Moment(*now, step.next_obs, step.terminated, place))
        reward += running * step.reward
        costs += running[:, None] * step.costs
        length += running
        for name, values in step.parts.items():
            parts[name] = parts.get(name, np.zeros(len(seeds))) + running * values
        running &= ~step.ended
        progress((batch + (time + 1) / environments.episode_length) / batches)
        if not running.any():
            break
        obs = step.obs
    return Episodes(seeds, reward, costs, length, parts)
