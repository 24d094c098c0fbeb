"""`cvpo render RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cvpo.cli.options import OtherEnv, RunPath, Trust, WhichPolicy, optional


def render(
    run: RunPath,
    output: Annotated[Path | None, optional("PATH", "RUN/videos/episode.mp4, or .gif")] = None,
    env: OtherEnv = None,
    episodes: int = 1,
    seed: int = 0,
    fps: int = 30,
    view: Annotated[Literal["top", "3d"] | None, optional("{top,3d}", "top")] = None,
    which: WhichPolicy = "newest",
    trust: Trust = False,
) -> None:
    """Write a film of a trained policy, acting without its noise.

    Args:
        run: A run directory.
        output: The film, an mp4 or a gif; without the extra `video` always a gif.
        env: A task or Gymnasium id.
        episodes: Number of episodes, one after the other.
        seed: Seed of the environment.
        fps: Frames per second.
        view: How a built-in task is seen: from above (top), or by MuJoCo's camera (3d, needs OpenGL).
        which: The newest policy of the run, or its best one that was within the limit.
    """
    from cvpo.policies.render import render

    print(render(run, output, env, episodes, seed, fps, view, which, trust=trust))
