"""`render`: a film of a trained policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from cvpo.envs.adapter import EnvSource, make_plain
from cvpo.errors import BadValue
from cvpo.policies.policy import load
from cvpo.runs.directory import VIDEOS
from cvpo.tasks.drawing.film import write_film
from cvpo.tasks.table import find_task


def render(
    run: str | Path,
    output: str | Path | None = None,
    env: EnvSource | None = None,
    episodes: int = 1,
    seed: int = 0,
    fps: int = 30,
    view: str | None = None,
    *,
    trust: bool = False,
) -> Path:
    """Film the deterministic policy of a run and return the file's path.

    output: an mp4 or gif file, RUN/videos/episode.mp4 if not given; where no mp4 can be written it becomes a gif.
    env: if other than it was trained on; a callable must make an environment that renders.
    view: of a built-in task: "top" (from above) or "3d" (needs GL).
    trust: import the module that the policy's own environment needs; without it such a policy needs `env`.
    """
    policy = load(run)
    output = Path(output) if output is not None else Path(run) / VIDEOS / "episode.mp4"
    output.parent.mkdir(parents=True, exist_ok=True)
    source = env if env is not None else policy.trained_on(trust)
    options: dict[str, Any] = {"view": view} if view is not None else {}
    if find_task(source):
        options["shown_limit"] = policy.info["spec"]["cost_limits"][0]
    game: gym.Env = make_plain(source, render_mode="rgb_array", **options)
    length = policy.info["spec"]["episode_length"]
    frames: list[np.ndarray] = []
    try:
        for episode in range(episodes):
            obs, _ = game.reset(seed=seed + episode)
            frames.append(_frame(game))
            for _ in range(length):
                values = game.step(policy(obs))  # five values, or six with Safety-Gymnasium's cost
                obs, ended = values[0], values[-3] or values[-2]
                frames.append(_frame(game))
                if ended:
                    break
    finally:
        game.close()
    return write_film(output, frames, fps)


def _frame(game: gym.Env) -> np.ndarray:
    frame = game.render()
    if not isinstance(frame, np.ndarray):
        raise BadValue(f"the environment renders {type(frame).__name__}, not pictures; is its render mode rgb_array?")
    return frame
