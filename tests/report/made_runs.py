"""Run directories made up for a purpose: their curves are known."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ON_POLICY = ("trpo", "trpo-lag", "ppo", "ppo-lag", "cpo")


def write_run(
    path: Path,
    reward: Sequence[float],
    cost: Any,  # [T], or [m, T] for several constraints
    *,
    env: str = "Point-Goal",
    algorithm: str = "cvpo",
    seed: int = 0,
    limits: Sequence[Any] = (10.0,),
    epoch_steps: int = 1000,
    planned_epochs: int | None = None,
    cumulative: Any = None,
    preset: str = "default",
    config: dict[str, Any] | None = None,
    extra: Callable[[int], dict[str, Any]] = lambda epoch: {},
    ending: str = "",
    **settings_beside: Any,  # in config.json
) -> Path:
    """A run directory of len(reward) epochs; `ending` is what stands after the last whole line."""
    costs = np.atleast_2d(np.asarray(cost, float))
    paid = np.cumsum(costs, axis=1) if cumulative is None else np.atleast_2d(np.asarray(cumulative, float))
    single = len(costs) == 1
    kind = {"gae_lambda": 0.97} if algorithm in ON_POLICY else {"replay_capacity": 1_000_000, "batch_size": 300}
    settings: dict[str, Any] = {
        "env": env,
        "source": env,
        "algorithm": algorithm,
        "off_policy": algorithm not in ON_POLICY,
        "steps": epoch_steps * (planned_epochs or len(reward)),
        "seed": seed,
        "cost_limit": list(limits),
        "preset": preset,
        "config": kind | ({"kl_constraint": True} if algorithm == "cvpo" else {}) | (config or {}),
        "spec": {},
        "provenance": {"id": str(path).encode(errors="replace").decode(), "versions": {}},
    }
    settings |= settings_beside
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(settings))
    lines = []
    for epoch, value in enumerate(reward):
        line = {
            "epoch": epoch,
            "steps": (epoch + 1) * epoch_steps,
            "wall_seconds": 2.0 * (epoch + 1),
            "train/reward": value,
        }
        for i in range(len(costs)):
            line["train/cost" if single else f"train/cost_{i}"] = costs[i, epoch]
            line["train/cumulative_cost" if single else f"train/cumulative_cost_{i}"] = paid[i, epoch]
        lines.append(json.dumps(line | extra(epoch)) + "\n")
    (path / "metrics.jsonl").write_text("".join(lines) + ending)
    return path


def shown_by(page: Path) -> dict[str, Any]:
    """The data in a page."""
    found = re.search(r'id="data">([^<]*)<', page.read_text())
    assert found
    return json.loads(gzip.decompress(base64.b64decode(found[1])))
