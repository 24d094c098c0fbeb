"""The experiments of the paper's section 4 as a list of runs, and how long they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cvpo.algorithms.registry import lookup
from cvpo.errors import BadValue, did_you_mean
from cvpo.experiments.spec import RunSpec
from cvpo.tasks import PAPER_TASKS

# The algorithm of each method, and its settings beyond the preset.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "cvpo": ("cvpo", {}),
    "sac-lag": ("sac-lag", {}),
    "td3-lag": ("td3-lag", {}),
    "ddpg-lag": ("ddpg-lag", {}),
    "trpo": ("trpo", {}),
    "trpo-lag": ("trpo-lag", {}),
    "ppo-lag": ("ppo-lag", {}),
    "cpo": ("cpo", {}),
    "cvpo-no-kl": ("cvpo", {"kl_constraint": False}),  # the ablation of the M-step's trust region
}
EPISODES = 20  # in an epoch, as in the paper's table of hyper-parameters


@dataclass(frozen=True)
class Scale:
    """How much is run of the paper's grid. (The paper does not print its number of epochs.)"""

    seeds: int  # of cvpo
    baseline_seeds: int  # of the others
    steps: int  # of the methods with a replay
    on_policy_steps: int  # of the others, which need many more samples
    preset: str
    longer: dict[str, int] = field(default_factory=dict)  # steps of the methods with a replay on slower tasks


SCALES = {
    "paper": Scale(seeds=10, baseline_seeds=10, steps=2_400_000, on_policy_steps=9_600_000, preset="paper"),
    "quick": Scale(
        seeds=3,
        baseline_seeds=2,
        steps=200_000,
        on_policy_steps=1_000_000,
        preset="default",
        longer={"Point-Goal": 400_000, "Car-Goal": 400_000, "Car-Button": 300_000},
    ),
}

# Milliseconds of one core: for a step (collecting, evaluating, and an on-policy method's learning) and for an update of
# the methods with a replay. docs/experiments.md says how they were measured.
COSTS: dict[str, dict[str, tuple[float, float]]] = {
    "default": {
        "cvpo": (0.30, 8.9),
        "sac-lag": (0.30, 5.8),
        "td3-lag": (0.30, 4.4),
        "ddpg-lag": (0.30, 3.9),
        "trpo": (0.22, 0.0),
        "trpo-lag": (0.22, 0.0),
        "ppo-lag": (0.27, 0.0),
        "cpo": (0.23, 0.0),
    },
    "paper": {
        "cvpo": (0.20, 103.8),
        "sac-lag": (0.20, 17.5),
        "td3-lag": (0.20, 13.7),
        "ddpg-lag": (0.20, 15.0),
        "trpo": (0.36, 0.0),
        "trpo-lag": (0.36, 0.0),
        "ppo-lag": (0.45, 0.0),
        "cpo": (0.55, 0.0),
    },
}


def paper_grid(
    scale: str,
    tasks: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: int | None = None,
    preset: str | None = None,
) -> list[RunSpec]:
    """The runs of the paper, or those of some tasks and methods; the first seed of all comes first."""
    chosen = SCALES[_known("scale", scale, SCALES)]
    tasks = [_known("task", task, PAPER_TASKS) for task in tasks or PAPER_TASKS]
    methods = [_known("method", method, METHODS) for method in methods or METHODS]
    specs = []
    for seed in range(max(chosen.seeds, chosen.baseline_seeds) if seeds is None else seeds):
        for task in tasks:
            for method in methods:
                if seeds is None and seed >= (chosen.seeds if method == "cvpo" else chosen.baseline_seeds):
                    continue
                algorithm, settings = METHODS[method]
                replay = lookup(algorithm).config.off_policy
                epoch = EPISODES * PAPER_TASKS[task].episode_length
                asked = chosen.longer.get(task, chosen.steps) if replay else chosen.on_policy_steps
                steps = -(-asked // epoch) * epoch  # whole epochs
                specs.append(RunSpec(task, algorithm, steps, seed, preset=preset or chosen.preset, config=settings))
    return specs


def core_hours(specs: Sequence[RunSpec]) -> float:
    """Hours that the runs take on one core of a machine like the one measured."""
    milliseconds = 0.0
    for spec in specs:
        config = spec.settings()
        step, update = COSTS[spec.preset][spec.algorithm]
        milliseconds += spec.steps * (step + update * getattr(config, "update_ratio", 0.0))
    return milliseconds / 3_600_000


def _known(kind: str, name: str, names: dict[str, Any]) -> str:
    if name not in names:
        raise BadValue(f"the paper has no {kind} {name!r}{did_you_mean(name, names)}")
    return name
