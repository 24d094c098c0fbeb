"""`evaluate` and `compare`: how safe a policy is, and how sure one can be of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from cvpo.envs.sources import EnvSource
from cvpo.errors import BadValue
from cvpo.policies import EVALUATION_EPISODES, statistics
from cvpo.policies.episodes import Episodes, Progress, episode_seeds, open_environments, run_episodes
from cvpo.policies.files import Which
from cvpo.policies.policy import Policy, load
from cvpo.policies.verdict import judge

QUANTILES = (0.5, 0.9, 0.95, 0.99)
TAILS = (0.9, 0.95)


def evaluate(
    policy: Policy | str | Path,
    env: EnvSource | None = None,
    episodes: int = EVALUATION_EPISODES,
    seed: int = 0,
    *,
    deterministic: bool = True,
    level: float = 0.95,
    max_step_cost: float | None = None,
    cost_limit: float | list[float] | None = None,
    which: Which = "newest",
    trust: bool = False,
    progress: Progress = lambda fraction: None,
) -> dict[str, Any]:
    """Run episodes of a policy and measure its reward, its costs, and how safe it is (docs/deployment.md).

    Args:
        policy: a loaded policy, or the path of a run.
        env: a task's name, a Gymnasium id or a callable. By default the one that the policy was trained on.
        episodes: how many.
        seed: of the first episode; the others follow from it.
        deterministic: act without the policy's noise.
        level: confidence level of all intervals and bounds.
        max_step_cost: the most that a step can cost, if the environment does not say so itself. Without it the bound of
            the expected cost is approximate.
        cost_limit: judge by this limit instead of the one it was trained with; one number for each constraint.
        which: the "newest" policy of a run, or its "best" one within the limit.
        trust: import the module that the policy's own environment needs; without it such a policy needs `env`.
        progress: called with the fraction that is done.
    """
    policy = policy if isinstance(policy, Policy) else load(policy, which)
    source = env if env is not None else policy.trained_on(trust)
    ran, largest = _run(policy, source, episodes, seed, deterministic, max_step_cost, level, progress)
    limits = _limits(policy, cost_limit)
    return describe(ran, limits, largest, level, policy.trained["config"].get("constraint", "mean"))


def compare(
    first: Policy | str | Path,
    second: Policy | str | Path,
    env: EnvSource | None = None,
    episodes: int = EVALUATION_EPISODES,
    seed: int = 0,
    *,
    deterministic: bool = True,
    level: float = 0.95,
    max_step_cost: float | None = None,
    which: Which = "newest",
    trust: bool = False,
    progress: Progress = lambda fraction: None,
) -> dict[str, Any]:
    """Evaluate two policies on episodes with the same seeds: both evaluations, and the differences second - first.

    Episodes that start in the same way are compared in pairs, so that episodes that are hard for both policies do not
    hide the difference. The arguments are those of `evaluate`.
    """
    policies = [policy if isinstance(policy, Policy) else load(policy, which) for policy in (first, second)]
    results, runs = [], []
    for i, policy in enumerate(policies):

        def both(fraction: float, i: int = i) -> None:
            progress(0.5 * (i + fraction))

        source = env if env is not None else policies[0].trained_on(trust)
        ran, largest = _run(policy, source, episodes, seed, deterministic, max_step_cost, level, both)
        constraint = policy.trained["config"].get("constraint", "mean")
        results.append(describe(ran, _limits(policy, None), largest, level, constraint))
        runs.append(ran)
    if runs[0].costs.shape != runs[1].costs.shape:
        raise BadValue(
            f"the policies have {runs[0].costs.shape[1]} and {runs[1].costs.shape[1]} cost limits; "
            "only those with the same number can be compared"
        )
    costs = [_mean(difference, level) for difference in (runs[1].costs - runs[0].costs).T]
    difference = {"reward": _mean(runs[1].reward - runs[0].reward, level), "cost": _single(costs)}
    return {"first": results[0], "second": results[1], "difference": difference}


def describe(
    ran: Episodes, limits: list[float], largest: float | None, level: float, constraint: str = "mean"
) -> dict[str, Any]:
    """All that episodes say, in JSON's types. With one limit the entries of the cost are numbers, else lists."""
    verdict = judge(ran.costs, limits, largest, level, constraint)
    within = (ran.costs <= np.array(limits)).all(-1)
    over = int((~within).sum())
    n = len(ran.reward)
    tails = [
        {"quantiles": {f"{q:g}": float(np.quantile(cost, q, method="higher")) for q in QUANTILES}}
        | {"cvar": {f"{q:g}": statistics.cvar(cost, q) for q in TAILS}, "largest": float(cost.max())}
        for cost in ran.costs.T
    ]
    return {
        "episodes": n,
        "level": level,
        "reward": float(ran.reward.mean()),
        "reward_std": float(ran.reward.std()),
        "reward_interval": list(statistics.mean_interval(ran.reward, level)),
        "cost": _single([float(cost.mean()) for cost in ran.costs.T]),
        "cost_std": _single([float(cost.std()) for cost in ran.costs.T]),
        "cost_interval": _single([list(statistics.mean_interval(cost, level)) for cost in ran.costs.T]),
        "cost_limit": _single(limits),
        "cost_upper_bound": _single([bound.upper for bound in verdict.bounds]),
        "cost_bound_holds": largest is not None,
        "over_limit": over / n,
        "over_limit_interval": list(statistics.share_interval(over, n, level)),
        "satisfied": 1 - over / n,
        "cost_tail": _single(tails),
        "cost_parts": {name: _mean(values, level) for name, values in ran.parts.items()},
        "length": float(ran.length.mean()),
        "safe": verdict.safe,
        "verdict": verdict.sentence,
        "rewards": ran.reward.tolist(),
        "costs": (ran.costs[:, 0] if len(limits) == 1 else ran.costs).tolist(),
    }


def _run(
    policy: Policy,
    env: EnvSource,
    episodes: int,
    seed: int,
    deterministic: bool,
    max_step_cost: float | None,
    level: float,
    progress: Progress,
) -> tuple[Episodes, float | None]:
    """The episodes, and the most that one of them could have cost, if that is known."""
    if episodes < 1:
        raise BadValue(f"episodes must be >= 1, got {episodes}")
    if not 0.5 < level < 1:
        raise BadValue(f"level must be between 0.5 and 1, got {level}")
    if max_step_cost is not None and not (max_step_cost > 0 and math.isfinite(max_step_cost)):
        raise BadValue(f"max_step_cost must be a positive finite number, got {max_step_cost}")
    policy.seed(seed)
    with open_environments(policy, env, episodes) as environments:
        ran = run_episodes(policy, environments, episode_seeds(seed, episodes), deterministic, progress)
        step_cost = environments.max_step_cost if max_step_cost is None else max_step_cost
        largest = None if step_cost is None else step_cost * environments.episode_length
    if largest is not None and ran.costs.min() < 0:
        raise BadValue(
            f"an episode cost {ran.costs.min():g}, and what max_step_cost bounds are costs >= 0; leave it out, in the "
            "environment too"
        )
    if largest is not None and not ran.costs.max() <= largest:
        raise BadValue(
            f"an episode cost {ran.costs.max():g}, where {environments.episode_length} steps of at most {step_cost:g} "
            f"cannot cost more than {largest:g}; give a max_step_cost that holds"
        )
    return ran, largest


def _limits(policy: Policy, given: float | list[float] | None) -> list[float]:
    own = [float(limit) for limit in policy.trained["cost_limits"]]
    if given is None:
        return own
    limits = [float(limit) for limit in np.atleast_1d(np.asarray(given, float))]
    if len(limits) != len(own):
        raise BadValue(f"the policy has {len(own)} cost limits, got {len(limits)}: {limits}")
    return limits


def _mean(values: np.ndarray, level: float) -> dict[str, Any]:
    return {"mean": float(values.mean()), "interval": list(statistics.mean_interval(values, level))}


def _single(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else values
