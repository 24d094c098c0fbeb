"""Demonstrations: the steps of a policy's episodes, or of anybody's, as a file that a run can start with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cvpo.envs.sources import EnvSource
from cvpo.policies.episodes import Moment, Progress, episode_seeds, open_environments, run_episodes
from cvpo.policies.files import Which
from cvpo.policies.policy import Policy, load


class Demonstrations:
    """The steps of a controller of your own, as a file that a run can start with. Call `add` after each step:

    demonstrations = cvpo.Demonstrations()
    ...
    demonstrations.add(observation, action, reward, cost, next_observation, terminated, ended)
    ...
    demonstrations.save("demonstrations.npz")
    """

    def __init__(self) -> None:
        self._steps: dict[str, list[Any]] = {}

    def add(
        self,
        observation: Any,
        action: Any,
        reward: float,
        cost: Any,
        next_observation: Any,
        terminated: bool,
        ended: bool,
    ) -> None:
        """One step. Observations are flat or of a Box space, actions in the environment's own units."""
        step = {
            "observation": observation, "action": action, "reward": reward, "cost": cost,
            "next_observation": next_observation, "terminated": terminated, "ended": ended,
        }  # fmt: skip
        for name, value in step.items():
            # A copy: an environment may write its next observation into the same array.
            self._steps.setdefault(name, []).append(np.array(value))

    def save(self, path: str | Path) -> Path:
        """Write an npz file; docs/deployment.md names its arrays."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:  # NumPy would add .npz to a name without it
            np.savez_compressed(file, **{name: np.stack(values) for name, values in self._steps.items()})  # type: ignore
        return path


def record_episodes(
    run: Policy | str | Path,
    output: str | Path,
    env: EnvSource | None = None,
    episodes: int = 50,
    seed: int = 0,
    *,
    deterministic: bool = True,
    which: Which = "newest",
    trust: bool = False,
    progress: Progress = lambda fraction: None,
) -> Path:
    """Whole episodes of a policy, one after the other, as demonstrations; the arguments are those of `evaluate`."""
    policy = run if isinstance(run, Policy) else load(run, which)
    policy.seed(seed)
    moments: list[Moment] = []
    with open_environments(policy, env, episodes, trust=trust) as environments:
        ran = run_episodes(policy, environments, episode_seeds(seed, episodes), deterministic, progress, moments.append)
    by_batch: dict[int, list[Moment]] = {}
    for moment in moments:
        by_batch.setdefault(moment.batch, []).append(moment)
    demonstrations = Demonstrations()
    for episode in range(episodes):
        steps = by_batch[episode // environments.count]
        row, length = episode % environments.count, int(ran.length[episode])
        for time, step in enumerate(steps[:length]):
            cost = step.costs[row, 0] if step.costs.shape[1] == 1 else step.costs[row]
            demonstrations.add(
                step.obs[row], policy.actor.own_units(step.action[row]), step.reward[row], cost, step.next_obs[row],
                step.terminated[row], time == length - 1,
            )  # fmt: skip
    return demonstrations.save(output)
