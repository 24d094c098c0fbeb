"""`render`: a film of a trained policy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from cvpo.envs.sources import EnvSource, make_plain
from cvpo.errors import BadValue
from cvpo.inputs import LARGEST, whole_number
from cvpo.policies.files import Which
from cvpo.policies.policy import Policy, load
from cvpo.runs.directory import VIDEOS
from cvpo.tasks.drawing.film import write_film
from cvpo.tasks.registry import find_task


def render(
    run: str | Path,
    output: str | Path | None = None,
    env: EnvSource | None = None,
    episodes: int = 1,
    seed: int = 0,
    fps: int = 30,
    view: str | None = None,
    which: Which = "newest",
    *,
    trust: bool = False,
) -> Path:
    """Film the deterministic policy of a run and return the file's path.

    Args:
        run: the run directory.
        output: an mp4 or gif file. By default RUN/videos/episode.mp4, or .gif if no mp4 can be written.
        env: by default the one it was trained on. A callable must make an environment that renders.
        episodes: how many, one after the other.
        seed: of the environment.
        fps: frames per second.
        view: of a built-in task: "top" (from above) or "3d" (needs OpenGL).
        which: the "newest" policy of the run, or its "best" one within the limit.
        trust: import the module that the policy's own environment needs; without it such a policy needs `env`.
    """
    policy, seed = load(run, which), whole_number("seed", seed, 0, LARGEST)
    source = env if env is not None else policy.trained_on(trust)
    if view is not None and find_task(source) is None:
        raise BadValue(f"view is for built-in tasks, which this environment is not; leave it out, got {view!r}")
    output = Path(output) if output is not None else Path(run) / VIDEOS / "episode.mp4"
    output.parent.mkdir(parents=True, exist_ok=True)
    options = _shown_limit(policy, source) | ({"view": view} if view is not None else {})
    game: gym.Env = make_plain(source, render=True, **options)
    length = policy.trained["episode_length"]
    frames: list[np.ndarray] = []
    try:
        for episode in range(episodes):
            frames += _film(game, seed + episode, length, lambda time, obs: policy(obs))
    finally:
        game.close()
    return write_film(output, frames, fps)


def replay(policy: Policy, source: EnvSource, seed: int, actions: np.ndarray, output: Path, fps: int = 30) -> Path:
    """Film an episode again, from its seed and the actions [T, ...] that were taken in it."""
    game: gym.Env = make_plain(source, render=True, **_shown_limit(policy, source))
    try:
        frames = _film(game, seed, len(actions), lambda time, obs: policy.actor.own_units(actions[time]))
    finally:
        game.close()
    return write_film(output, frames, fps)


def _film(game: gym.Env, seed: int, length: int, act: Callable[[int, Any], Any]) -> list[np.ndarray]:
    obs, _ = game.reset(seed=seed)
    frames = [_frame(game)]
    for time in range(length):
        values = game.step(act(time, obs))  # five values, or six with Safety-Gymnasium's cost
        obs, ended = values[0], values[-3] or values[-2]
        frames.append(_frame(game))
        if ended:
            break
    return frames


def _shown_limit(policy: Policy, source: EnvSource) -> dict[str, Any]:
    return {"shown_limit": policy.trained["cost_limits"][0]} if find_task(source) else {}


def _frame(game: gym.Env) -> np.ndarray:
    try:
        frame = game.render()
    except NotImplementedError as error:
        name = type(game.unwrapped).__name__
        raise BadValue(f"{name} cannot be filmed: it has no pictures (render is not implemented)") from error
    if not isinstance(frame, np.ndarray):
        raise BadValue(f"the environment renders {type(frame).__name__}, not pictures; is its render mode rgb_array?")
    return frame
