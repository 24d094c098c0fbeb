"""The suites of runs that `reproduce` knows: the paper's section 4 and the published benchmarks; how long they take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cvpo.algorithms.config import OffPolicyConfig
from cvpo.algorithms.registry import lookup
from cvpo.errors import BadValue, did_you_mean
from cvpo.experiments.spec import RunSpec
from cvpo.tasks import PAPER_TASKS, TASKS

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
class Plan:
    """How much is run of a suite."""

    tasks: Sequence[str]
    seeds: Mapping[str, int]  # of each method, in the order in which they run
    steps: int  # of the methods with a replay
    on_policy_steps: int  # of the others, which need many more samples
    preset: str = "default"
    longer: Mapping[str, int] = field(default_factory=dict)  # steps of the methods with a replay on slower tasks


# The methods that published tables have, most seeds for the one whose claims are at stake.
_BENCHMARK_SEEDS = {"cvpo": 3, "sac-lag": 2, "ppo-lag": 1, "cpo": 1, "td3-lag": 1, "trpo-lag": 1}

# By suite, then by scale. (The paper does not print its number of epochs.)
SUITES: dict[str, dict[str, Plan]] = {
    "paper": {
        "quick": Plan(
            tasks=tuple(PAPER_TASKS),
            seeds={"cvpo": 3} | {method: 2 for method in METHODS if method != "cvpo"},
            steps=200_000,
            on_policy_steps=1_000_000,
            longer={"Point-Goal": 400_000, "Car-Goal": 400_000, "Car-Button": 300_000},
        ),
        "paper": Plan(
            tasks=tuple(PAPER_TASKS),
            seeds=dict.fromkeys(METHODS, 10),
            steps=2_400_000,
            on_policy_steps=9_600_000,
            preset="paper",
        ),
    },
    "velocity": {
        "quick": Plan(
            tasks=tuple(task.name for task in TASKS.values() if task.group == "velocity"),
            seeds=_BENCHMARK_SEEDS,
            steps=300_000,
            on_policy_steps=2_000_000,
        ),
    },
    "navigation": {
        "quick": Plan(
            tasks=(
                "SafetyPointGoal1", "SafetyCarGoal1", "SafetyPointButton1", "SafetyCarButton1", "SafetyPointPush1",
                "SafetyPointCircle1", "SafetyCarCircle1",
            ),
            seeds=_BENCHMARK_SEEDS,
            steps=500_000,
            on_policy_steps=2_000_000,
        ),
    },
}  # fmt: skip

# Milliseconds of one core: for a step (collecting, evaluating, and an on-policy method's learning) and for an update of
# the methods with a replay. docs/experiments.md says how they were measured.
COSTS: dict[str, dict[str, tuple[float, float]]] = {
    "default": {
        "cvpo": (0.30, 7.3),
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


# The published code's settings have the sizes of the paper's.
COSTS["reference"] = COSTS["paper"]
# What a step of these robots takes longer than one of the paper's tasks.
SLOWER = {"SafetyAntVelocity": 0.13, "SafetyHumanoidVelocity": 0.19}


def make_grid(
    suite: str,
    scale: str = "quick",
    tasks: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: int | None = None,
    preset: str | None = None,
    steps: int | None = None,
) -> list[RunSpec]:
    """The runs of a suite, or those of some tasks and methods; the first seed of all comes first."""
    plans = SUITES[_known("suite", suite, SUITES, "reproduce")]
    plan = plans[_known("scale", scale, plans, f"the suite {suite}")]
    tasks = [_known("task", task, plan.tasks, f"the suite {suite}") for task in tasks or plan.tasks]
    methods = [_known("method", method, plan.seeds, f"the suite {suite}") for method in methods or plan.seeds]
    specs = []
    for seed in range(max(plan.seeds.values()) if seeds is None else seeds):
        for method in methods:
            for task in tasks:
                if seeds is None and seed >= plan.seeds[method]:
                    continue
                algorithm, settings = METHODS[method]
                replay = lookup(algorithm).config.off_policy
                epoch = EPISODES * TASKS[task].episode_length
                asked = steps or (plan.longer.get(task, plan.steps) if replay else plan.on_policy_steps)
                whole = -(-asked // epoch) * epoch  # whole epochs
                specs.append(RunSpec(task, algorithm, whole, seed, preset=preset or plan.preset, config=settings))
    return specs


def core_hours(specs: Sequence[RunSpec]) -> float:
    """Hours that the runs take on one core of a machine like the one measured."""
    milliseconds = 0.0
    for spec in specs:
        config = spec.settings()
        step, update = COSTS[spec.preset][spec.algorithm]
        step += SLOWER.get(spec.env, 0.0)
        updates = config.updates_before(spec.steps) if isinstance(config, OffPolicyConfig) else 0
        milliseconds += spec.steps * step + updates * update
    return milliseconds / 3_600_000


def _known(kind: str, name: str, names: Iterable[str], owner: str) -> str:
    names = list(names)
    if name not in names:
        raise BadValue(f"{owner} has no {kind} {name!r}{did_you_mean(name, names)}; there are {', '.join(names)}")
    return name
