"""What a task is: an environment, its episodes and its limits. Runs on different tasks are never pooled."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from cvpo.report.load import RunRecord
from cvpo.runs.strict_json import to_json


def name_tasks(runs: Sequence[RunRecord]) -> list[str]:
    """The task of each run: the name of its environment, and in brackets what tells it from others of that name.

    An unconstrained run belongs to the task of the constrained ones, if these have the same costs and the same limits.
    """
    words: list[list[str]] = [[] for _ in runs]
    tellers: tuple[Callable[[Sequence[RunRecord]], list[str]], ...] = (_made, _episodes, _costs, _limits)
    for tell in tellers:
        alike = defaultdict(list)  # as far as told yet
        for i, run in enumerate(runs):
            alike[run.env, *words[i]].append(i)
        for members in alike.values():
            for i, word in zip(members, tell([runs[i] for i in members]), strict=True):
                words[i] += [word] if word else []
    return [f"{run.env} ({', '.join(told)})" if told else run.env for run, told in zip(runs, words, strict=True)]


def constrained(run: RunRecord) -> bool:
    return any(math.isfinite(limit) for limit in run.limits)


# Each of these has a word for each run if the runs differ in something, and "" if they do not. What a run does not say
# (an older version wrote less) does not differ.


def _made(runs: Sequence[RunRecord]) -> list[str]:
    """What made the environment, with which arguments."""
    made = [to_json(told) if isinstance(told := run.settings.get("environment"), dict) else "" for run in runs]
    kinds = sorted(set(made) - {""})
    if len(kinds) < 2:
        return ["" for _ in runs]
    given = {kind: runs[made.index(kind)].settings["environment"].get("arguments") for kind in kinds}
    texts = {kind: _differing(value, list(given.values())) for kind, value in given.items()}
    if len(set(texts.values())) < len(kinds):  # they differ in something that has no short name
        texts = {kind: f"environment {number}" for number, kind in enumerate(kinds, 1)}
    return [texts.get(kind, "environment unknown") for kind in made]


def _differing(mine: Any, all_given: Sequence[Any]) -> str:
    """The arguments that are not the same in all, if they are few and short."""
    if not all(isinstance(given, dict) for given in all_given):
        return ""
    text = ", ".join(
        f"{name}={value}" for name, value in mine.items() if any(given.get(name) != value for given in all_given)
    )
    return text if text.isprintable() and len(text) < 60 else ""


def _episodes(runs: Sequence[RunRecord]) -> list[str]:
    """How long an episode is: rewards and costs are sums over it."""
    specs = [run.settings.get("spec") for run in runs]
    lengths = [spec.get("episode_length") if isinstance(spec, dict) else None for spec in specs]
    lengths = [length if isinstance(length, int) and 0 < length < 10**12 else None for length in lengths]
    if len(set(lengths) - {None}) < 2:
        return ["" for _ in runs]
    return [f"episodes of {length or 'unknown'} steps" for length in lengths]


def _costs(runs: Sequence[RunRecord]) -> list[str]:
    """How many costs there are, and where they come from."""
    if len({len(run.limits) for run in runs}) > 1:
        return ["1 cost" if len(run.limits) == 1 else f"{len(run.limits)} costs" for run in runs]
    if len({run.cost_keys for run in runs}) > 1:
        return ["cost from " + " and ".join(run.cost_keys) if run.cost_keys else "its own cost" for run in runs]
    return ["" for _ in runs]


def _limits(runs: Sequence[RunRecord]) -> list[str]:
    """The limits, and the statistic that they are on."""
    found = {(run.limits, run.statistic) for run in runs if constrained(run)}
    if len(found) < 2:
        return ["" for _ in runs]
    several = len({statistic for _, statistic in found}) > 1

    def word(run: RunRecord) -> str:
        limits = ", ".join(f"{limit:g}" for limit in run.limits)
        return f"limit {limits} on the {run.statistic}" if several else f"limit {limits}"

    return [word(run) if constrained(run) else "no limit" for run in runs]
