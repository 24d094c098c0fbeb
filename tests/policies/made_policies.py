"""Policies of every algorithm, written to disk as training writes them, without any training."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import numpy as np

from cvpo.algorithms.base import Algorithm, Spec
from cvpo.algorithms.registry import ALGORITHMS, build
from cvpo.envs.adapter import Environments
from cvpo.policies.files import PolicyWriter
from cvpo.presets import make_config
from cvpo.runs.directory import RunDirectory

CONTINUOUS = [(name, False) for name in ALGORITHMS]
DISCRETE = [(name, True) for name in ("cvpo", "trpo", "trpo-lag", "ppo", "ppo-lag", "cpo")]
EVERY_POLICY = CONTINUOUS + DISCRETE


class Robot(gym.Env):
    """Observations of very different sizes; actions with bounds of their own and a shape, or choices from 5 on."""

    LOW, HIGH = np.array([[-2.0, 0.0, 0.1]], np.float32), np.array([[2.0, 10.0, 0.3]], np.float32)

    def __init__(self, discrete: bool = False) -> None:
        self.observation_space = gym.spaces.Box(-100, 100, (7,), np.float32)
        self.action_space = gym.spaces.Discrete(4, start=5) if discrete else gym.spaces.Box(self.LOW, self.HIGH)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self._time = 0
        return self._look(), {}

    def step(self, action: Any):
        self._time += 1
        return self._look(), 0.0, False, self._time == 10, {"cost": 0.0}

    def _look(self) -> np.ndarray:
        return (self.np_random.normal(size=7) * np.geomspace(0.01, 50, 7)).astype(np.float32)


class Made(NamedTuple):
    run: Path
    algorithm: Algorithm
    params: Any
    environments: Environments
    spec: Spec
    observations: np.ndarray  # [B, 7]


def make_policy(run: Path, name: str, discrete: bool = False, **settings: Any) -> Made:
    """A policy with weights that matter: random ones, and observations that it has been scaled for."""
    environments = Environments(lambda: Robot(discrete), 2, episode_length=10)
    spec = Spec(environments.obs_size, environments.action_size, discrete, (3.0,), 10)
    config = make_config(name, overrides={"hidden": (32, 16), **settings})
    algorithm = build(name, config, spec)
    rng = np.random.default_rng(0)
    state = algorithm.init(jax.random.key(0))
    observations = np.concatenate([environments.reset([2 * i, 2 * i + 1]) for i in range(50)])
    if config.normalize_observations:
        moments, rest = state
        moments = moments._replace(
            rows=np.float32(100), mean=observations.mean(0), square=100 * observations.var(0).astype(np.float32)
        )
        state = (moments, rest)
    params = algorithm.policy(state)
    # the last layers start near zero, where nothing would show
    noisy = jax.tree.map(lambda x: x + 0.3 * rng.normal(size=x.shape).astype(np.float32), params)
    params = (params[0], noisy[1]) if config.normalize_observations else noisy
    directory = RunDirectory.create(run, {"steps": 1})
    directory.append_metrics({"epoch": 0})
    directory.close()
    PolicyWriter(run, algorithm, name, config, spec, environments).write(params, 0)
    return Made(run, algorithm, params, environments, spec, observations)
