"""Policy files: where a run keeps them, how they are written and read. docs/policy_file.md describes the format."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cvpo.envs.spaces import size_of
from cvpo.errors import BadValue, NotFound, UserError
from cvpo.policies.best import best_epoch
from cvpo.runs.array_file import Arrays, Limits, read_arrays, write_arrays
from cvpo.runs.directory import POLICY, read_metrics
from cvpo.runs.strict_json import require_fields, to_json

if TYPE_CHECKING:  # these need JAX, which reading a policy must not wait for
    from cvpo.algorithms.base import Algorithm, Params, Spec
    from cvpo.algorithms.config import LoopConfig
    from cvpo.envs.adapter import Environments

VERSION = 1
Which = Literal["newest", "best"]
LIMITS = Limits(arrays=1_000, bytes=1_000_000_000)  # far beyond any policy that acts in time
_FILES: dict[str, str] = {"newest": "policy.safetensors", "best": "best.safetensors"}


class PolicyWriter:
    """Writes the policies of one run: the newest after each epoch, and the best whenever there is a better one."""

    def __init__(
        self, run: Path, algorithm: Algorithm, name: str, config: LoopConfig, spec: Spec, environments: Environments
    ) -> None:
        self._run, self._algorithm, self._limits = run, algorithm, spec.cost_limits
        self._about = {
            "observation": {"size": size_of(environments.observation), "layout": environments.observation},
            "action": environments.action,
        }
        self._trained = {
            "algorithm": name,
            "environment": environments.name,
            "source": environments.source,
            "cost_limits": spec.cost_limits,
            "episode_length": spec.episode_length,
            "config": dataclasses.asdict(config),
        }

    def write(self, params: Params, epoch: int) -> None:
        """Write the policy of an epoch whose line is in the run's metrics already."""
        assert self._algorithm.portable is not None
        form, arrays = self._algorithm.portable(params)
        trained = {**self._trained, "epoch": epoch}
        description = json.loads(to_json({"policy_version": VERSION, **form, **self._about, "trained": trained}))
        numpy_arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
        write_arrays(policy_path(self._run, "newest"), numpy_arrays, description)
        # from the metrics, not from memory: a resumed run decides as one that was never stopped
        if best_epoch(read_metrics(self._run), self._limits) == epoch:
            write_arrays(policy_path(self._run, "best"), numpy_arrays, description)


def read_policy(path: str | Path, which: Which = "newest") -> tuple[Path, dict[str, Any], Arrays]:
    """The file, the description and the arrays of a run's policy, or of a policy file itself."""
    path = Path(path)
    if which not in _FILES:
        raise BadValue(f"which must be {' or '.join(_FILES)}, got {which!r}")
    if not path.exists():
        raise NotFound(f"{path} does not exist; a run directory or a policy file is needed")
    file = policy_path(path, which) if path.is_dir() else path
    if not file.exists():
        if which == "best" and policy_path(path, "newest").exists():
            raise NotFound(
                f"{path} has no best policy: in no two evaluations in a row was its cost within the limit. Its newest "
                "policy is there: which newest"
            )
        raise NotFound(f"no policy at {file}; a run saves one at the end of each epoch")
    arrays, info = read_arrays(file, LIMITS, finite=True)
    if info.get("policy_version") != VERSION:
        raise UserError(
            f"{file} was written by another version of cvpo (policy version {info.get('policy_version')}, this one "
            f"reads {VERSION}); load it with that version"
        )
    require_fields(info, {"kind": str, "activation": str, "observation": dict, "action": dict, "trained": dict}, file)
    require_fields(info["observation"], {"size": int, "layout": dict}, f"the observation of {file}")
    trained = require_fields(info["trained"], _TRAINED, f"what {file} says of its training")
    for limit in trained["cost_limits"]:
        require_fields({"cost_limit": limit}, {"cost_limit": float}, f"what {file} says of its training")
    return file, info, arrays


_TRAINED: dict[str, type | tuple[type, ...]] = {
    "algorithm": str, "environment": str, "source": (str, type(None)), "epoch": int, "cost_limits": list,
    "episode_length": int, "config": dict,
}  # fmt: skip


def policy_path(run: Path, which: Which) -> Path:
    return run / POLICY / _FILES[which]
