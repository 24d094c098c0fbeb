"""`cvpo evaluate RUN`."""

from __future__ import annotations

from cvpo.cli.options import OtherEnv, RunPath, Trust
from cvpo.policies import EVALUATION_EPISODES


def evaluate(
    run: RunPath, env: OtherEnv = None, episodes: int = EVALUATION_EPISODES, seed: int = 0, trust: Trust = False
) -> None:
    """Run a trained policy without its noise and print its rewards and costs as JSON.

    Args:
        run: A run directory.
        env: A task or Gymnasium id.
        episodes: Number of episodes.
        seed: Seed of the environments.
    """
    from cvpo.policies.evaluate import evaluate
    from cvpo.runs.strict_json import to_json

    print(to_json(evaluate(run, env, episodes, seed, trust=trust), indent=2))
