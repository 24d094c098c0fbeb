"""`evaluate`: how a policy fares in an environment, from outside of any training run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from cvpo.envs.adapter import Environments, EnvSource
from cvpo.envs.rollout import evaluate_policy
from cvpo.errors import BadValue
from cvpo.policies import EVALUATION_EPISODES
from cvpo.policies.policy import Policy, load


def evaluate(
    policy: Policy | str | Path,
    env: EnvSource | None = None,
    episodes: int = EVALUATION_EPISODES,
    seed: int = 0,
    *,
    trust: bool = False,
) -> dict[str, Any]:
    """Mean, spread and single values of the episodes' rewards and costs under the deterministic policy.

    policy: a loaded policy, or the path of a run.
    env: a task's name, a Gymnasium id or a callable; if not given, the one that the policy was trained on.
    trust: import the module that the policy's own environment needs; without it such a policy needs `env`.
    """
    if episodes < 1:
        raise BadValue(f"episodes must be >= 1, got {episodes}")
    policy = policy if isinstance(policy, Policy) else load(policy)
    trained = policy.info
    source = env if env is not None else policy.trained_on(trust)
    limits = trained["spec"]["cost_limits"]
    keys, length = trained["config"]["cost_keys"], trained["config"]["episode_length"]
    limited = any(math.isfinite(limit) for limit in limits)
    with Environments(source, episodes, len(limits), limited, keys, length) as environments:
        theirs = {"observations": environments.layout, "actions": environments.action_layout()}
        for what, ours in (("observations", trained["layout"]), ("actions", trained["actions"])):
            if theirs[what] != ours:
                raise BadValue(f"the policy was trained on {what} {ours}, {environments.name} has {theirs[what]}")
        seeds = np.random.SeedSequence(seed).generate_state(episodes)
        reward, costs, _ = evaluate_policy(environments, policy.act, None, seeds)
    within = (costs <= np.array(limits)).all(-1)  # [episodes]
    single = len(limits) == 1
    costs = costs[:, 0] if single else costs
    return {
        "episodes": episodes,
        "reward": float(reward.mean()),
        "reward_std": float(reward.std()),
        "cost": float(costs.mean()) if single else costs.mean(0).tolist(),
        "cost_std": float(costs.std()) if single else costs.std(0).tolist(),
        "cost_limit": limits[0] if single else limits,
        "satisfied": float(within.mean()),
        "rewards": reward.tolist(),
        "costs": costs.tolist(),
    }
