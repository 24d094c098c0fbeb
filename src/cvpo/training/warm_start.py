"""Starting from another run: its policy, critics and normaliser, and its replay if asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from cvpo.algorithms.base import Spec, State, Transition
from cvpo.algorithms.registry import build
from cvpo.errors import BadValue
from cvpo.presets import make_config
from cvpo.runs.checkpoint import Checkpoint, CheckpointStore
from cvpo.runs.directory import CHECKPOINTS, CONFIG, read_config
from cvpo.runs.pytrees import flatten, unflatten
from cvpo.runs.strict_json import require_fields
from cvpo.training import replay

# What belongs to a run and not to what it has learned: controllers of the cost, which has another limit perhaps, and
# the E-steps that they asked for, optimisers of the on-policy methods with their multipliers, counters. Their shapes
# depend on settings in which two runs may differ.
_OF_THE_RUN = ("cost_control", "pool", "solved", "penalty", "memory", "updates", "policy_info")


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


def read_checkpoint(run: str | Path) -> Checkpoint:
    """The newest checkpoint of a run, in the shapes that its own settings give it."""
    saved = _read_settings(run)
    spec = _spec_of(saved)
    config = make_config(saved["algorithm"], overrides=saved["config"])
    own = jax.eval_shape(build(saved["algorithm"], config, spec).init, jax.random.key(0))
    envs = config.env_count(spec.episode_length)
    store = CheckpointStore(Path(run) / CHECKPOINTS, learner_identity(saved["algorithm"], spec, envs))
    checkpoint = store.load(own, replay.segment(spec, envs))
    if checkpoint is None:
        raise BadValue(f"a run cannot start from {run}: it has no checkpoint, only a run that keeps them can be one")
    return checkpoint


def read_source(run: str | Path, algorithm: str, spec: Spec, fresh: State) -> Checkpoint:
    """The newest checkpoint of a run that has learned the same thing; refuses another, and says why."""
    saved = _read_settings(run)
    its = _spec_of(saved)
    theirs = {
        "algorithm": (saved["algorithm"], algorithm),
        "observations": (its.obs_size, spec.obs_size),
        "actions": (its.action_size, spec.action_size),
        "discrete actions": (its.discrete, spec.discrete),
        "choices": (its.choices, spec.choices),
        "constraints": (its.num_costs, spec.num_costs),
        "images": (its.images, spec.images),
        "scaled observations": (saved["config"]["normalize_observations"] or bool(spec.images), _is_wrapped(fresh)),
    }
    differing = [f"its {name}: {there}, here: {here}" for name, (there, here) in theirs.items() if there != here]
    if differing:
        raise BadValue(f"a run cannot start from {run}: {'; '.join(differing)}")
    checkpoint = read_checkpoint(run)
    unflatten(Path(run), flatten(_learned_part(checkpoint.learner)), _learned_part(fresh))  # refuses other networks
    return checkpoint


def warm_state(fresh: State, learned: State) -> State:
    """`fresh` with what was learned: everything but the controllers and counters of a run."""
    if _is_wrapped(fresh):
        return learned[0], warm_state(fresh[1], learned[1])
    return fresh._replace(**_learned_part(learned))


def _learned_part(state: State) -> Any:
    if _is_wrapped(state):
        return state[0], _learned_part(state[1])
    return {name: value for name, value in state._asdict().items() if name not in _OF_THE_RUN}


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


def _read_settings(run: str | Path) -> dict[str, Any]:
    saved = read_config(run)
    file = Path(run) / CONFIG
    require_fields(saved, {"spec": dict}, file)
    require_fields(saved["spec"], {"obs_size": int, "action_size": int, "discrete": bool}, f"the spec of {file}")
    require_fields(saved["config"], {"normalize_observations": bool, "envs": int}, f"the settings of {file}")
    return saved


def _spec_of(saved: dict[str, Any]) -> Spec:
    """The spec of a run's settings; JSON has lists for its tuples."""
    fields = saved["spec"] | {"cost_limits": saved["cost_limit"]}
    return Spec(**{name: _as_tuple(value) for name, value in fields.items()})


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def _is_wrapped(state: Any) -> bool:
    return not hasattr(state, "_fields")
