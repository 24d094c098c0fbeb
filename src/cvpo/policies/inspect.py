"""`inspect`: where, when and why a policy violates its limit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cvpo.envs.sources import EnvSource
from cvpo.errors import BadValue, UserError
from cvpo.policies.episodes import Moment, Progress, episode_seeds, open_environments, run_episodes
from cvpo.policies.files import Which
from cvpo.policies.policy import Policy, load
from cvpo.policies.render import replay
from cvpo.policies.violations import Violations, draw_violations
from cvpo.runs.directory import INSPECT
from cvpo.runs.strict_json import to_json


class Recorder:
    """Every step of every episode as arrays [n, T, ...]; what follows an episode's end is zero."""

    def __init__(self, episodes: int, horizon: int, keep: Sequence[str]) -> None:
        self.arrays: dict[str, np.ndarray] = {"running": np.zeros((episodes, horizon), bool)}
        self._episodes, self._horizon, self._keep = episodes, horizon, keep

    def __call__(self, moment: Moment) -> None:
        count = len(moment.running)
        first = moment.batch * count
        rows = slice(first, min(first + count, self._episodes))
        values: dict[str, Any] = {
            "action": moment.action, "reward": moment.reward, "costs": moment.costs, "place": moment.place,
            "observation": moment.obs, **moment.parts,
        }  # fmt: skip
        self.arrays["running"][rows, moment.time] = moment.running[: rows.stop - first]
        for name, value in values.items():
            if value is None or (name not in self._keep and name not in moment.parts):
                continue
            if name not in self.arrays:
                self.arrays[name] = np.zeros((self._episodes, self._horizon, *value.shape[1:]), value.dtype)
            mask = moment.running.reshape(-1, *[1] * (value.ndim - 1))
            self.arrays[name][rows, moment.time] = (value * mask)[: rows.stop - first]


def inspect(
    run: str | Path,
    output: str | Path | None = None,
    env: EnvSource | None = None,
    episodes: int = 100,
    seed: int = 0,
    *,
    deterministic: bool = True,
    films: int = 2,
    trajectories: bool = False,
    which: Which = "newest",
    trust: bool = False,
    progress: Progress = lambda fraction: None,
) -> list[Path]:
    """Write pictures and films of what is unsafe in a policy's episodes, and return the files (docs/deployment.md).

    - violations.png: when costs arise in an episode and from what, how they are spread over episodes, and, for a
      built-in task, where.
    - violations.json: the numbers.
    - worst_1.mp4 (or .gif): the episodes that cost most, if the environment renders.
    - trajectories.npz: every step, if asked for.

    Args:
        run: the run directory.
        output: the folder to write. By default RUN/inspect.
        env: by default the one it was trained on.
        episodes: how many.
        seed: of the first episode; the others follow from it.
        deterministic: act without the policy's noise.
        films: how many of the worst episodes to film.
        trajectories: write trajectories.npz.
        which: the "newest" policy of the run, or its "best" one within the limit.
        trust: import the module that the policy's own environment needs; without it such a policy needs `env`.
        progress: called with the fraction that is done.
    """
    if episodes < 1 or films < 0:
        raise BadValue(f"episodes must be >= 1 and films >= 0, got {episodes} and {films}")
    policy = load(run, which)
    folder = Path(output) if output is not None else Path(run) / INSPECT
    source = env if env is not None else policy.trained_on(trust)
    policy.seed(seed)
    seeds = episode_seeds(seed, episodes)
    keep = ["action", "costs", "place"] + (["reward", "observation"] if trajectories else [])
    with open_environments(policy, source, episodes) as environments:
        recorder = Recorder(episodes, environments.episode_length, keep)
        ran = run_episodes(policy, environments, seeds, deterministic, progress, recorder)
    steps = recorder.arrays
    folder.mkdir(parents=True, exist_ok=True)
    found = Violations.of(steps, policy.trained["cost_limits"], sorted(ran.parts))
    files = [draw_violations(found, folder / "violations.png", policy.trained["environment"], _floor(source, found))]
    files.append(folder / "violations.json")
    files[-1].write_text(to_json(found.numbers(), indent=2) + "\n")
    if trajectories:
        files.append(folder / "trajectories.npz")
        np.savez_compressed(files[-1], seed=seeds, length=ran.length, **steps)  # type: ignore[arg-type]
    return files + _film_worst(policy, source, ran.costs.sum(1), ran.length, seeds, steps["action"], films, folder)


def _film_worst(
    policy: Policy,
    source: EnvSource,
    costs: np.ndarray,
    lengths: np.ndarray,
    seeds: np.ndarray,
    actions: np.ndarray,
    count: int,
    folder: Path,
) -> list[Path]:
    files = []
    for rank, episode in enumerate(np.argsort(-costs, kind="stable")[:count], 1):
        taken = actions[episode, : lengths[episode]]
        try:
            files.append(replay(policy, source, int(seeds[episode]), taken, folder / f"worst_{rank}.mp4"))
        except (UserError, TypeError, NotImplementedError) as error:
            (folder / "films.txt").write_text(f"no films: the environment does not render ({error})\n")
            return [*files, folder / "films.txt"]
    return files


def _floor(source: EnvSource, found: Violations) -> list[Any]:
    """What lies on the floor of a built-in task, drawn under the heat map."""
    from cvpo.envs.sources import make_plain
    from cvpo.tasks.registry import find_task

    if found.places is None or not find_task(source):
        return []
    game = make_plain(source)
    try:
        game.reset(seed=0)
        return list(game.unwrapped.vector.world.marks(0))
    finally:
        game.close()
