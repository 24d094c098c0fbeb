"""A trained policy on its own: loaded without an environment and without JAX, NumPy in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cvpo.envs.sources import EnvSource, as_source
from cvpo.envs.spaces import flatten, images_of, numbers_in, size_of
from cvpo.errors import BadValue
from cvpo.inputs import LARGEST, whole_number
from cvpo.policies.actor import Actor
from cvpo.policies.files import Which, read_policy
from cvpo.runs.array_file import Arrays
from cvpo.runs.strict_json import BadFile
from cvpo.runs.trust import require_trust


class Policy:
    """`policy(obs) -> action` for one observation or a batch, in the environment's own units.

    `description` is the policy file's JSON (docs/policy_file.md) and `arrays` its weights by name.
    """

    def __init__(self, description: dict[str, Any], arrays: Arrays) -> None:
        self.description, self.arrays = description, arrays
        self.actor = Actor(description, arrays)
        self._layout = description["observation"]["layout"]
        self._rng = np.random.default_rng(0)

    def __call__(self, observation: Any, deterministic: bool = True) -> np.ndarray:
        flat, _ = flatten(self._layout, observation)
        if not np.isfinite(numbers_in(self._layout, flat)).all():
            raise BadValue(f"observation must be finite, got {observation}")
        return self.actor.own_units(self.act(flat, deterministic))

    def act(self, flat: np.ndarray, deterministic: bool = True) -> np.ndarray:
        """Flat observations [D] or [N, D] to actions in [-1, 1], or choices counted from 0."""
        return self.actor.best(flat) if deterministic else self.actor.draw(flat, self._rng)

    def seed(self, seed: int) -> None:
        """Restart the random draws of `deterministic=False` from this seed."""
        self._rng = np.random.default_rng(whole_number("seed", seed, 0, LARGEST))

    @property
    def trained(self) -> dict[str, Any]:
        """How it came about: algorithm, environment, epoch, cost_limits, episode_length, config."""
        return self.description["trained"]

    def trained_on(self, trust: bool = False) -> EnvSource:
        """What makes the environment it was trained on; `trust`: even if that runs code that the policy file names."""
        source: str | None = self.trained["source"]
        if source is None:
            raise BadValue(
                f"the policy was trained on an environment that a function made, {self.trained['environment']}, which "
                "its name alone does not make again; pass env"
            )
        require_trust(source, "the policy", trust, self.trained["config"].get("python"))
        return as_source(source)


def load(path: str | Path, which: Which = "newest") -> Policy:
    """Load the policy of a run directory, or a policy file.

    Args:
        path: the run directory or the file.
        which: "newest", of the last epoch that was trained; or "best", the one with the highest reward among those that
            were within the cost limit in two evaluations in a row.
    """
    file, description, arrays = read_policy(path, which)
    try:
        policy = Policy(description, arrays)
        _try_out(policy)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, MemoryError) as error:
        raise BadFile(f"{file} holds no policy that can act: {type(error).__name__} {error}") from error
    return policy


def _try_out(policy: Policy) -> None:
    """One action of each kind, so that whatever is wrong with a file from anybody shows before it is used."""
    size, layout = policy.description["observation"]["size"], policy.description["observation"]["layout"]
    if size != size_of(layout):
        raise ValueError(f"its observations have size {size}, and another one by their layout")
    observation = np.zeros(size, np.uint8 if images_of(layout) else np.float32)
    with np.errstate(all="ignore"):
        for deterministic in (True, False):
            action = policy.actor.own_units(policy.act(observation, deterministic))
            if not np.isfinite(action).all():
                raise ValueError(f"it acts with {action}")
    policy.seed(0)
