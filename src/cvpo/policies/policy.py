"""A trained policy on its own: saved in a run directory, loaded without an environment, NumPy in and out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np

from cvpo.algorithms.base import Algorithm, Spec
from cvpo.algorithms.config import LoopConfig
from cvpo.algorithms.registry import lookup
from cvpo.algorithms.shared.normalize import with_normalizer
from cvpo.envs.adapter import Environments, rescale
from cvpo.envs.rollout import make_act
from cvpo.envs.spaces import Layout, flatten
from cvpo.errors import BadValue, NotFound
from cvpo.presets import make_config
from cvpo.runs.array_file import Limits, read_arrays, write_arrays
from cvpo.runs.directory import POLICY
from cvpo.runs.pytrees import flatten as flatten_tree
from cvpo.runs.pytrees import unflatten
from cvpo.runs.trust import require_trust

FILE = Path(POLICY) / "policy.safetensors"
LIMITS = Limits(arrays=1_000, bytes=1_000_000_000)  # far beyond any policy that acts in time


def build(name: str, config: LoopConfig, spec: Spec) -> Algorithm:
    """An algorithm for an environment, with its observations scaled if the settings say so."""
    algorithm = lookup(name).make(config, spec)
    return with_normalizer(algorithm, spec) if config.normalize_observations else algorithm


class Policy:
    """`policy(obs) -> action` for one observation or a batch, in the environment's own units."""

    def __init__(self, algorithm: Algorithm, params: Any, layout: Layout, actions: dict[str, Any], info: dict) -> None:
        self.info = info
        self._params, self._layout, self._actions = params, layout, actions
        self._act = make_act(algorithm)
        self._key = jax.random.key(0)

    def __call__(self, observation: Any, deterministic: bool = True) -> np.ndarray:
        flat, batched = flatten(self._layout, observation)
        if not np.isfinite(flat).all():
            raise BadValue(f"observation must be finite, got {observation}")
        key = None
        if not deterministic:
            self._key, key = jax.random.split(self._key)
        action, _ = self._act(self._params, np.atleast_2d(flat), key, 0)
        native = self._native(np.asarray(action))
        return native if batched else native[0]

    def act(self, _: None, obs: np.ndarray, key: jax.Array | None, step: int) -> tuple[jax.Array, jax.Array]:
        """Flat observations [N, D] to actions in [-1, 1]: what runs an evaluation calls."""
        return self._act(self._params, obs, key, step)

    def trained_on(self, trust: bool = False) -> str:
        """The name that makes the environment it was trained on; `trust`: even if that imports a module."""
        source: str | None = self.info["source"]
        if source is None:
            raise BadValue(
                f"the policy was trained on an environment that a function made, {self.info['environment']}, which its "
                "name alone does not make again; pass env"
            )
        return require_trust(source, "the policy", trust)

    def seed(self, seed: int) -> None:
        """Begin the random draws of `deterministic=False` anew."""
        self._key = jax.random.key(seed)

    def _native(self, action: np.ndarray) -> np.ndarray:
        if "start" in self._actions:
            return action + self._actions["start"]
        low, high = np.array(self._actions["low"]), np.array(self._actions["high"])
        native = rescale(action, low, high).reshape(len(action), *self._actions["shape"])
        return native.astype(self._actions["dtype"])


def save_policy(
    run: Path, name: str, config: LoopConfig, spec: Spec, environments: Environments, params: Any, epoch: int
) -> None:
    """Write what `load` needs, and no more, into a run directory."""
    info = {
        "algorithm": name,
        "config": dataclasses.asdict(config),
        "spec": dataclasses.asdict(spec),
        "layout": environments.layout,
        "actions": environments.action_layout(),
        "environment": environments.name,
        "source": environments.source,
        "epoch": epoch,
    }
    write_arrays(run / FILE, flatten_tree(params), info)


def load(path: str | Path) -> Policy:
    """The policy of a run directory, or of its policy file."""
    path = Path(path)
    if path.is_dir():
        path = path / FILE if (path / FILE).exists() else path / FILE.name
    if not path.exists():
        raise NotFound(f"no policy at {path}; a run saves one at the end of each epoch")
    arrays, info = read_arrays(path, LIMITS, finite=True)
    limits = tuple(float(limit) for limit in info["spec"]["cost_limits"])
    spec = Spec(**info["spec"] | {"cost_limits": limits})
    config = make_config(info["algorithm"], overrides=info["config"])
    algorithm = build(info["algorithm"], config, spec)
    template = jax.eval_shape(lambda key: algorithm.policy(algorithm.init(key)), jax.random.key(0))
    params = unflatten(path, arrays, template)
    return Policy(algorithm, params, info["layout"], info["actions"], info)
