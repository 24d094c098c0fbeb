"""A run's replay as demonstrations."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np

from cvpo.algorithms.base import Spec
from cvpo.algorithms.registry import build
from cvpo.policies.policy import load
from cvpo.presets import make_config
from cvpo.runs.directory import read_config
from cvpo.training.warm_start import read_source, replay_steps


def record_replay(run: str | Path, output: str | Path) -> Path:
    """The steps in the replay of a run's newest checkpoint, as a file that another run can start with."""
    saved = read_config(run)
    spec = Spec(**{**saved["spec"], "cost_limits": tuple(saved["cost_limit"])})
    algorithm = build(saved["algorithm"], make_config(saved["algorithm"], overrides=saved["config"]), spec)
    fresh = jax.eval_shape(algorithm.init, jax.random.key(0))
    steps = replay_steps(read_source(run, saved["algorithm"], spec, fresh))
    own_units = load(run).actor.own_units
    path = Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez_compressed(
            file,
            observation=steps.obs,
            action=own_units(np.asarray(steps.action)),
            reward=steps.reward,
            cost=steps.costs[:, 0] if spec.num_costs == 1 else steps.costs,
            next_observation=steps.next_obs,
            terminated=steps.terminated,
            ended=steps.ended,
            log_prob=steps.log_prob,
        )
    return path
