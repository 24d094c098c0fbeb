"""`cvpo evaluate RUN [RUN]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import tyro

from cvpo.cli.options import CostLimit, OtherEnv, Switch, Trust, WhichPolicy, optional
from cvpo.errors import BadValue
from cvpo.policies import EVALUATION_EPISODES

NOT_SHOWN_SAFE = 3  # exit status: nothing went wrong, but the policy is not shown to keep its limit


def evaluate(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN]")],
    env: OtherEnv = None,
    episodes: int = EVALUATION_EPISODES,
    seed: int = 0,
    which: WhichPolicy = "newest",
    stochastic: Switch = False,
    level: float = 0.95,
    cost_limit: CostLimit = (),
    max_step_cost: Annotated[float | None, optional("FLOAT", "the environment's own")] = None,
    json: Switch = False,
    require_safe: Switch = False,
    trust: Trust = False,
) -> None:
    """Measure how safe a trained policy is, and how certain that is. With two runs: compare them on the same episodes.

    Args:
        runs: A run directory; or two, to compare them.
        env: A task or Gymnasium id.
        episodes: Number of episodes.
        seed: Seed of the environments.
        which: The newest policy of a run, or its best one that was within the limit.
        stochastic: Act with the policy's noise.
        level: Confidence level of intervals and bounds.
        cost_limit: Judge by this limit instead of the one it was trained with.
        max_step_cost: The most that a step can cost.
        json: Print everything as JSON, including single episodes.
        require_safe: Exit with status 3 unless the policy is shown to stay within its limit.
    """
    from cvpo.policies.evaluate import compare, evaluate
    from cvpo.policies.show import show_comparison, show_evaluation, waiting
    from cvpo.runs.strict_json import to_json

    if len(runs) not in (1, 2):
        raise BadValue(f"one run is evaluated, or two are compared, got {len(runs)}")
    options: dict[str, Any] = {
        "deterministic": not stochastic,
        "level": level,
        "max_step_cost": max_step_cost,
        "which": which,
        "trust": trust,
    }
    with waiting(f"{episodes} episodes", quiet=json) as progress:
        if len(runs) == 2:
            if cost_limit:
                raise BadValue("a comparison judges each run by its own limit; leave --cost-limit out")
            result = compare(runs[0], runs[1], env, episodes, seed, progress=progress, **options)
            judged = [result["first"], result["second"]]
        else:
            limits = list(cost_limit) or None
            result = evaluate(runs[0], env, episodes, seed, cost_limit=limits, progress=progress, **options)
            judged = [result]
    if json:
        print(to_json(result, indent=2))
    elif len(runs) == 2:
        show_comparison(result, runs)
    else:
        show_evaluation(result)
    if require_safe and not all(one["safe"] for one in judged):
        sys.exit(NOT_SHOWN_SAFE)
