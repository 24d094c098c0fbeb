"""`cvpo record RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cvpo.cli.options import OtherEnv, RunPath, Switch, Trust, WhichPolicy, optional


def record(
    run: RunPath,
    output: Annotated[Path | None, optional("PATH", "RUN/demonstrations.npz")] = None,
    env: OtherEnv = None,
    episodes: int = 50,
    seed: int = 0,
    which: WhichPolicy = "newest",
    stochastic: Switch = False,
    replay: Switch = False,
    trust: Trust = False,
) -> None:
    """Write the steps of a policy or of a run's replay to a file that another run can start from.

    Args:
        run: A run directory.
        output: The npz file to write.
        env: A task or Gymnasium id.
        episodes: Number of episodes of the policy.
        seed: Seed of the environments.
        which: The newest policy of the run, or its best one that was within the limit.
        stochastic: Act with the policy's noise.
        replay: Write the replay of the run's newest checkpoint instead of new episodes.
    """
    output = output or run / "demonstrations.npz"
    if replay:
        from cvpo.training.record import record_replay

        print(record_replay(run, output))
    else:
        from cvpo.policies.record import record_episodes
        from cvpo.policies.show import waiting

        with waiting(f"{episodes} episodes") as progress:
            path = record_episodes(
                run, output, env, episodes, seed, deterministic=not stochastic, which=which, trust=trust,
                progress=progress,
            )  # fmt: skip
        print(path)
