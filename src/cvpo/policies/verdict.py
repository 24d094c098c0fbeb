"""Whether episodes show that a policy keeps its limit, in one sentence."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cvpo.algorithms.constraint import parse_constraint
from cvpo.policies import statistics


class Bound(NamedTuple):
    """What is known of the statistic that has a limit."""

    value: float  # of the sample
    lower: float
    upper: float


class Verdict(NamedTuple):
    safe: bool | None  # None: the episodes do not decide it
    sentence: str
    bounds: list[Bound]  # of the expected costs, one for each limit


def judge(costs: np.ndarray, limits: list[float], largest: float | None, level: float, constraint: str) -> Verdict:
    """The verdict on costs [n, m] of n episodes with m limits.

    largest: the most that an episode can cost; None if it is not known, and then bounds are approximate.
    constraint: what the limit is on: mean, quantile=Q or cvar=Q of the episodes' costs.
    Several limits share what may go wrong, so that the level is that of all their bounds together.
    """
    each = 1 - (1 - level) / len(limits)
    bounds = [_mean_bound(cost, largest, each) for cost in costs.T]
    kind, q = parse_constraint(constraint)
    states, sentences = [], []
    for i, (cost, limit, bound) in enumerate(zip(costs.T, limits, bounds, strict=True)):
        name = "cost" if len(limits) == 1 else f"cost {i}"
        if math.isinf(limit):
            continue
        if kind == "quantile":
            state, sentence = _judge_share(name, cost, limit, q, level, each)
        elif kind == "cvar":
            state, sentence = _judge_tail(name, cost, limit, q, largest, level, each)
        else:
            state, sentence = _judge_bound(f"expected {name}", bound, limit, level, largest is not None)
        states.append(state)
        sentences.append(sentence)
    if not states:
        return Verdict(None, "no limit to judge by", bounds)
    safe = False if False in states else None if None in states else True
    return Verdict(safe, "; ".join(sentences), bounds)


def _mean_bound(cost: np.ndarray, largest: float | None, level: float) -> Bound:
    mean = float(cost.mean())
    if largest is None:
        return Bound(mean, *statistics.mean_interval(cost, 2 * level - 1))
    lower = statistics.mean_lower_bound(cost, largest, level)
    return Bound(mean, lower, statistics.mean_upper_bound(cost, largest, level))


def _judge_bound(what: str, bound: Bound, limit: float, level: float, holds: bool) -> tuple[bool | None, str]:
    sure = f"with {'' if holds else 'about '}{level:.0%} confidence"
    if bound.upper <= limit:
        return True, f"{what} ≤ {bound.upper:.3g} {sure}: within the limit of {limit:g}"
    if bound.lower > limit:
        return False, f"{what} ≥ {bound.lower:.3g} {sure}: over the limit of {limit:g}"
    return None, (
        f"not decided: {what} ≤ {bound.upper:.3g} {sure}, and the limit is {limit:g} (mean of the episodes "
        f"{bound.value:.3g}); more episodes may decide it"
    )


def _judge_share(
    name: str, cost: np.ndarray, limit: float, q: float, level: float, each: float
) -> tuple[bool | None, str]:
    over, n, allowed = int((cost > limit).sum()), len(cost), 1 - q
    upper = statistics.share_upper_bound(over, n, each)
    lower = statistics.share_lower_bound(over, n, each)
    text = f"{over} of {n} episodes over the limit of {limit:g} for the {name}, "
    if upper <= allowed:
        return True, text + f"at most {upper:.1%} with {level:.0%} confidence: within the allowed {allowed:.0%}"
    if lower > allowed:
        return False, text + f"at least {lower:.1%} with {level:.0%} confidence: more than the allowed {allowed:.0%}"
    return None, "not decided: " + text + (
        f"at most {upper:.1%} with {level:.0%} confidence, and {allowed:.0%} are allowed; more episodes may decide it"
    )


def _judge_tail(
    name: str, cost: np.ndarray, limit: float, q: float, largest: float | None, level: float, each: float
) -> tuple[bool | None, str]:
    value = statistics.cvar(cost, q)
    text = f"mean {name} of the worst {1 - q:.0%} of episodes"
    if largest is None:
        return None, f"not decided: {text} {value:.3g}, and a bound of it needs max_step_cost"
    lower = statistics.mean_lower_bound(cost, largest, each)  # the mean of all is below that of the worst
    return _judge_bound(
        text, Bound(value, lower, statistics.cvar_upper_bound(cost, q, largest, each)), limit, level, True
    )
