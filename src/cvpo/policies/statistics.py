"""What a sample of episodes says of a policy: intervals, bounds, quantiles and tails.

`x` [n] is one number from each of n independent episodes. A level of 0.95 is right in 95 of 100 samples, or in more.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from cvpo.algorithms.constraint import measured_cost


class Interval(NamedTuple):
    low: float
    high: float


def mean_interval(x: np.ndarray, level: float) -> Interval:
    """Student's interval of the mean: its level is approximate, as it trusts the sample's own spread."""
    if len(x) < 2:
        return Interval(-math.inf, math.inf)
    half = special.stdtrit(len(x) - 1, 0.5 + 0.5 * level) * x.std(ddof=1) / math.sqrt(len(x))
    return Interval(float(x.mean() - half), float(x.mean() + half))


def mean_upper_bound(x: np.ndarray, largest: float, level: float) -> float:
    """What the expectation is below, for values in [0, largest] of any distribution, however skewed.

    Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2024). If the expectation were
    m, no bet against values above it could be expected to win: starting with a capital of 1, the chance of ever owning
    1 / (1 - level) is at most 1 - level. So an m at which the bets won that much is refuted, and the bound is the
    least of these. Half of the capital bets all that it may, which is best while the values seen are far below the
    largest possible; the other half bets by the spread seen so far. The level holds for every sample size.
    """
    if not 0 < level < 1:
        raise ValueError(f"a level is between 0 and 1, got {level}")
    share = np.asarray(x, float) / largest
    if share.min() < 0 or share.max() > 1:
        raise ValueError(f"values must be between 0 and {largest:g}, got {x.min():g} to {x.max():g}")
    needed = -math.log1p(-level)
    bets = _cautious_bets(share, needed)
    log_left = float(np.log1p(-share).sum()) if share.max() < 1 else -math.inf

    def refuted(m: float) -> bool:
        if m == 1.0:
            return False
        # a stake of 1 / (1 - m) leaves (1 - x) / (1 - m) of the capital after a value x
        bold = log_left - len(share) * math.log1p(-m)
        cautious = float(np.log1p(np.minimum(bets, 0.75 / (1 - m)) * (m - share)).sum())
        return np.logaddexp(bold, cautious) - math.log(2) >= needed

    low, high = float(share.mean()), 1.0
    for _ in range(60):  # both capitals grow with m
        middle = 0.5 * (low + high)
        low, high = (low, middle) if refuted(middle) else (middle, high)
    return high * largest


def mean_lower_bound(x: np.ndarray, largest: float, level: float) -> float:
    """What the expectation is above, for values in [0, largest]."""
    return largest - mean_upper_bound(largest - np.asarray(x, float), largest, level)


def _cautious_bets(share: np.ndarray, needed: float) -> np.ndarray:
    """Stakes [n] from the spread of the values before each: the paper's predictable plug-in."""
    count = np.arange(1, len(share) + 1)
    mean = (0.5 + np.cumsum(share)) / (count + 1)
    variance = (0.25 + np.cumsum((share - mean) ** 2)) / (count + 1)
    before = np.concatenate([[0.25], variance[:-1]])
    return np.sqrt(2 * needed / (before * len(share)))


def share_interval(successes: int, trials: int, level: float) -> Interval:
    """Clopper and Pearson's interval of a probability: its level is exact or higher."""
    rest = 0.5 * (1 - level)
    low = 0.0 if successes == 0 else float(special.betaincinv(successes, trials - successes + 1, rest))
    high = 1.0 if successes == trials else float(special.betaincinv(successes + 1, trials - successes, 1 - rest))
    return Interval(low, high)


def share_upper_bound(successes: int, trials: int, level: float) -> float:
    """What a probability is below (Clopper and Pearson, one-sided)."""
    return share_interval(successes, trials, 2 * level - 1).high


def share_lower_bound(successes: int, trials: int, level: float) -> float:
    return share_interval(successes, trials, 2 * level - 1).low


def cvar(x: np.ndarray, q: float) -> float:
    """The mean of the worst share 1 - q of the values (conditional value at risk); a part of one counts in part."""
    return float(measured_cost(f"cvar={q}", x[:, None])[0])


def cvar_upper_bound(x: np.ndarray, q: float, largest: float, level: float) -> float:
    """What the expected worst share 1 - q is below, for values in [0, largest].

    CVaR is at most t + E[max(x - t, 0)] / (1 - q) for any t (Rockafellar and Uryasev 2000), and that expectation has a
    bound. The first fifth of the sample chooses t, which must not depend on what is then bounded.
    """
    cut = max(1, len(x) // 5)
    if cut == len(x):
        return largest
    threshold = float(np.quantile(x[:cut], q))
    if threshold >= largest:
        return largest
    excess = np.maximum(x[cut:] - threshold, 0.0)
    return min(largest, threshold + mean_upper_bound(excess, largest - threshold, level) / (1 - q))
