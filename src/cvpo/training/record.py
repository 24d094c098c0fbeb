"""A run's replay as demonstrations."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cvpo.policies.policy import load
from cvpo.training.warm_start import read_checkpoint, replay_steps


def record_replay(run: str | Path, output: str | Path) -> Path:
    """The steps in the replay of a run's newest checkpoint, as a file that another run can start with."""
    steps = replay_steps(read_checkpoint(run))
    own_units = load(run).actor.own_units
    path = Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.savez_compressed(
            file,
            observation=steps.obs,
            action=own_units(np.asarray(steps.action)),
            reward=steps.reward,
            cost=steps.costs[:, 0] if steps.costs.shape[1] == 1 else steps.costs,
            next_observation=steps.next_obs,
            terminated=steps.terminated,
            ended=steps.ended,
            log_prob=steps.log_prob,
        )
    return path
