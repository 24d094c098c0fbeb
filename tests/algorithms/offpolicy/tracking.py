"""Learning runs of the Lagrangian methods on a problem whose optimum is known."""

import numpy as np
import pytest
from toys import Tracking

import cvpo

GAMMA = 0.9


def assert_tracks_within_its_limit(run_dir, algorithm, **settings):
    """The cost is where the cost signal holds it, and the policy is the best one for its multiplier."""
    config = {
        "envs": 20, "hidden": (32, 32), "batch_size": 64, "update_ratio": 0.25, "early_update_factor": 1.0,
        "polyak": 0.98, "n_step": 1, "gamma": GAMMA, "cost_gamma": GAMMA, "multiplier_kp": 0.5,
        "multiplier_ki": 0.2, "safety_margin": 0.0,
        "episode_length": Tracking.LENGTH, "eval_episodes": 50, "eval_every": 5,
    }  # fmt: skip
    run = cvpo.train(
        Tracking, algorithm, steps=20_000, cost_limit=Tracking.LIMIT, run_dir=run_dir, quiet=True,
        config=config | settings,
    )  # fmt: skip
    tail = run.metrics()[-20:]

    def mean(name):
        return np.mean([line[name] for line in tail if name in line])

    # The critic counts what would follow after time cuts an episode, so the cost is held below the limit by 1 - γ^T.
    held = Tracking.LIMIT * (1 - GAMMA**Tracking.LENGTH if settings.get("cost_signal") == "critic" else 1)
    assert mean("train/cost") == pytest.approx(held, rel=0.1)
    assert mean("eval/cost") <= 1.1 * held
    assert mean("eval/reward") >= 0.95 * Tracking.BEST_REWARD
    # For a multiplier λ the best policy is a = s / (1 + λ). It costs LENGTH / (3 (1 + λ)²) without noise, and more with
    # it, so λ is above the 1 of the optimum without noise. Multipliers weigh values in the critics' units.
    multiplier = np.mean([m["policy/multiplier"] * m["critic/reward_scale"] / m["critic/cost_scale"] for m in tail])
    assert multiplier == pytest.approx(np.sqrt(Tracking.LENGTH / (3 * mean("eval/cost"))) - 1, rel=0.15)
