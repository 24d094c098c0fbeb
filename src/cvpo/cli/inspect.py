"""`cvpo inspect RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cvpo.cli.options import OtherEnv, RunPath, Switch, Trust, WhichPolicy, optional


def inspect(
    run: RunPath,
    output: Annotated[Path | None, optional("PATH", "RUN/inspect")] = None,
    env: OtherEnv = None,
    episodes: int = 100,
    seed: int = 0,
    which: WhichPolicy = "newest",
    stochastic: Switch = False,
    films: int = 2,
    trajectories: Switch = False,
    trust: Trust = False,
) -> None:
    """Show where, when and why a trained policy violates its limit, with a film of the worst episodes.

    Args:
        run: A run directory.
        output: The folder to write.
        env: A task or Gymnasium id.
        episodes: Number of episodes.
        seed: Seed of the environments.
        which: The newest policy of the run, or its best one that was within the limit.
        stochastic: Act with the policy's noise.
        films: How many of the worst episodes are filmed.
        trajectories: Save every step of every episode as trajectories.npz too.
    """
    from cvpo.policies.inspect import inspect
    from cvpo.policies.show import waiting

    with waiting(f"{episodes} episodes") as progress:
        files = inspect(
            run,
            output,
            env,
            episodes,
            seed,
            deterministic=not stochastic,
            films=films,
            trajectories=trajectories,
            which=which,
            trust=trust,
            progress=progress,
        )
    for file in files:
        print(file)
