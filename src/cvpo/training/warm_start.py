"""Starting from another run: its policy, critics and normaliser, and its replay if asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from cvpo.algorithms.base import Spec, State, Transition
from cvpo.errors import BadValue
from cvpo.runs.checkpoint import Checkpoint, CheckpointStore
from cvpo.runs.directory import CHECKPOINTS, CONFIG, read_config
from cvpo.runs.strict_json import require_fields
from cvpo.training import replay

# What belongs to a run and not to what it has learned: controllers of the cost, which has another limit perhaps,
# optimisers of the on-policy methods with their multipliers, counters.
_OF_THE_RUN = ("cost_control", "penalty", "memory", "updates", "policy_info")


def learner_identity(algorithm: str, spec: Spec, envs: int) -> dict[str, Any]:
    """What a checkpoint must have been written for to fit a run."""
    return {
        "algorithm": algorithm,
        "obs_size": spec.obs_size,
        "action_size": spec.action_size,
        "discrete": spec.discrete,
        "choices": list(spec.choices),
        "constraints": spec.num_costs,
        "envs": envs,
    }


def read_source(run: str | Path, algorithm: str, spec: Spec, fresh: State) -> Checkpoint:
    """The newest checkpoint of a run that has learned the same thing; refuses another, and says why."""
    saved = read_config(run)
    file = Path(run) / CONFIG
    require_fields(saved, {"spec": dict}, file)
    require_fields(saved["spec"], {"obs_size": int, "action_size": int, "discrete": bool}, f"the spec of {file}")
    require_fields(saved["config"], {"normalize_observations": bool, "envs": int}, f"the settings of {file}")
    theirs = {
        "algorithm": (saved["algorithm"], algorithm),
        "observations": (saved["spec"]["obs_size"], spec.obs_size),
        "actions": (saved["spec"]["action_size"], spec.action_size),
        "discrete actions": (saved["spec"]["discrete"], spec.discrete),
        "constraints": (len(saved["cost_limit"]), spec.num_costs),
        "images": ([list(shape) for shape in saved["spec"].get("images", ())], [list(s) for s in spec.images]),
        "scaled observations": (saved["config"]["normalize_observations"] or bool(spec.images), _is_wrapped(fresh)),
    }
    differing = [f"its {name}: {there}, here: {here}" for name, (there, here) in theirs.items() if there != here]
    if differing:
        raise BadValue(f"a run cannot start from {run}: {'; '.join(differing)}")
    envs = int(saved["config"]["envs"])
    # its replay may be of another size than this run's
    template = replay.segment(Spec(**{**saved["spec"], "cost_limits": tuple(saved["cost_limit"])}), envs)
    checkpoint = CheckpointStore(Path(run) / CHECKPOINTS, learner_identity(algorithm, spec, envs)).load(fresh, template)
    if checkpoint is None:
        raise BadValue(f"a run cannot start from {run}: it has no checkpoint, only a run that keeps them can be one")
    return checkpoint


def warm_state(fresh: State, learned: State) -> State:
    """`fresh` with what was learned: everything but the controllers and counters of a run."""
    if _is_wrapped(fresh):
        return learned[0], warm_state(fresh[1], learned[1])
    kept = {name: getattr(learned, name) for name in fresh._fields if name not in _OF_THE_RUN}
    return fresh._replace(**kept)


def replay_steps(checkpoint: Checkpoint) -> Transition:
    """All steps [T, ...] of the run's replay, the oldest first, each environment's in their order."""
    segments = [jax.tree.map(np.asarray, segment) for _, segment in checkpoint.segments()]
    if not segments:
        raise BadValue("the run has no replay: its method learns from its newest episodes only")

    def joined(*parts: np.ndarray) -> np.ndarray:
        return np.concatenate([np.moveaxis(x, 1, 0).reshape(-1, *x.shape[2:]) for x in parts])

    steps: Transition = jax.tree.map(joined, *segments)
    # the end of an epoch cuts an episode that is under way
    ends = np.concatenate([_last_of_columns(x.reward.shape) for x in segments])
    return steps._replace(ended=steps.ended | ends)


def _last_of_columns(shape: tuple[int, ...]) -> np.ndarray:
    horizon, envs = shape
    return np.tile(np.arange(horizon) == horizon - 1, envs)


def _is_wrapped(state: Any) -> bool:
    return not hasattr(state, "_fields")
