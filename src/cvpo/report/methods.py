"""What a method is: an algorithm, and the settings in which its runs on one task differ."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from cvpo.report.load import RunRecord

# Settings that say how a run is executed or observed, not what it learns.
_IRRELEVANT = frozenset({"threads", "processes", "python", "envs_on_ray", "env_timeout", "eval_every", "eval_episodes"})
_WORDS: dict[tuple[str, Any], str] = {
    ("kl_constraint", True): "",
    ("kl_constraint", False): "no KL",
    ("preset", "default"): "",
}
_PAPER_ORDER = ("cvpo", "sac-lag", "td3-lag", "ddpg-lag", "trpo", "trpo-lag", "ppo-lag", "cpo")


def name_methods(runs: Sequence[RunRecord], tasks: Sequence[str]) -> list[str]:
    """The method of each run on its task, such as "CVPO", "CVPO (no KL)" or "SAC-Lag (batch_size=64)".

    A setting that differs between tasks alone makes no method of its own, nor does one that follows from those named.
    """
    names = [""] * len(runs)
    for algorithm, members in _grouped(range(len(runs)), key=lambda i: runs[i].algorithm).items():
        telling = _telling_settings([runs[i] for i in members], [tasks[i] for i in members])
        for i in members:
            words = [word for key in telling if _has(runs[i], key) and (word := _word(key, _setting(runs[i], key)))]
            names[i] = _algorithm_name(algorithm) + (f" ({', '.join(words)})" if words else "")
    return names


def method_order(runs: Sequence[RunRecord], names: Sequence[str]) -> list[str]:
    """The methods, the paper's first and in its order, an algorithm's plain one before its variants."""

    def rank(name: str) -> tuple[Any, ...]:
        algorithm = runs[names.index(name)].algorithm.replace("_", "-")
        place = _PAPER_ORDER.index(algorithm) if algorithm in _PAPER_ORDER else len(_PAPER_ORDER)
        numbers = [float(number) for number in re.findall(r"=(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)", name)]  # 16 before 128
        return place, algorithm, "(" in name, numbers, name

    return sorted(set(names), key=rank)


def without_kl(run: RunRecord) -> bool:
    """Whether the run is the paper's ablation: CVPO without the M-step's trust region."""
    return run.settings["config"].get("kl_constraint") is False


def _telling_settings(runs: Sequence[RunRecord], tasks: Sequence[str]) -> list[str]:
    """The fewest settings, in the order of the configuration, that tell apart the runs of each task."""
    telling: list[str] = []
    # The preset comes first: it explains many settings with one word.
    for key in dict.fromkeys(["preset", *(key for run in runs for key in run.settings["config"])]):
        groups = _grouped(
            range(len(runs)), key=lambda i: (tasks[i], *(repr(_setting(runs[i], known)) for known in telling))
        )
        # A run of a version that had no such setting does not differ in it.
        values = [{repr(_setting(runs[i], key)) for i in group if _has(runs[i], key)} for group in groups.values()]
        varies = any(len(found) > 1 for found in values)
        if varies and key not in _IRRELEVANT:
            telling.append(key)
    return telling


def _has(run: RunRecord, key: str) -> bool:
    return key == "preset" or key in run.settings["config"]


def _setting(run: RunRecord, key: str) -> Any:
    return run.settings.get("preset", "default") if key == "preset" else run.settings["config"].get(key)


def _word(key: str, value: Any) -> str:
    if isinstance(value, bool | str) and (key, value) in _WORDS:
        return _WORDS[key, value]
    if key == "preset":
        return f"{value} preset"
    if isinstance(value, bool):
        return key if value else f"no {key}"
    if isinstance(value, list):
        value = "×".join(map(str, value)) or "none"
    return f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"


def _algorithm_name(algorithm: str) -> str:
    """ "sac-lag" as "SAC-Lag": abbreviations in capitals, words capitalised."""
    parts = re.split(r"[-_]", algorithm)
    return "-".join(part.capitalize() if part == "lag" or len(part) > 4 else part.upper() for part in parts)


def _grouped(items: Iterable[Any], key: Any) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups
