"""Statistics over seeds, on plain arrays: n runs, G points of a common grid. NaN stands for what is missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def common_grid(axes: Sequence[np.ndarray], points: int = 400) -> np.ndarray:
    """The points at which to compare curves: all at which any was measured or, if these are too many, evenly spaced."""
    union = np.unique(np.concatenate(axes))
    return union if len(union) <= points else np.linspace(union[0], union[-1], points)


def on_grid(grid: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[G] the curve through the measured points (x, y), straight between them, NaN before the first and after the last.

    x must not decrease. Of points at the same x, the last counts.
    """
    measured = np.isfinite(y)
    x, y = x[measured], y[measured]
    if not len(x):
        return np.full(len(grid), np.nan)
    last = np.append(x[1:] > x[:-1], True)
    return np.interp(grid, x[last], y[last], left=np.nan, right=np.nan)


def mean_and_deviation(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation [G] over curves [n, G], where at least half of the runs have a value."""
    present = np.isfinite(curves)
    count = present.sum(axis=0)
    enough = 2 * count >= max(len(curves), 1)
    divisor = np.where(enough, np.maximum(count, 1), np.nan)
    mean = np.where(present, curves, 0.0).sum(axis=0) / divisor
    variance = np.where(present, (curves - mean) ** 2, 0.0).sum(axis=0) / divisor
    return mean, np.sqrt(variance)


def mean_over_last(values: np.ndarray) -> np.ndarray:
    """Mean of the measured values along the last axis; NaN where there is none."""
    measured = np.isfinite(values)
    count = measured.sum(axis=-1)
    total = np.where(measured, values, 0.0).sum(axis=-1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def mean(values: np.ndarray) -> float:
    """Mean of the measured values; NaN if there is none."""
    return float(mean_over_last(values.ravel()))


def deviation(values: np.ndarray) -> float:
    """Standard deviation of the measured values; NaN if there is none."""
    measured = values[np.isfinite(values)]
    return float(measured.std()) if len(measured) else float("nan")


def five_numbers(values: np.ndarray) -> np.ndarray:
    """Minimum, first quartile, median, third quartile and maximum of the measured values; NaN if there is none."""
    measured = values[np.isfinite(values)]
    return np.quantile(measured, [0.0, 0.25, 0.5, 0.75, 1.0]) if len(measured) else np.full(5, np.nan)


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """Mean [...] of the middle half of values [..., n]: a quarter of them, rounded down, is cut off at either end."""
    cut = values.shape[-1] // 4
    return np.sort(values, axis=-1)[..., cut : values.shape[-1] - cut].mean(axis=-1)


def bootstrap_interval(
    strata: Sequence[np.ndarray], resamples: int = 2000, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Stratified bootstrap interval of the interquartile mean of all values together.

    strata: one array of runs' results for each task. Each resample draws as many runs of every task as there are.
    """
    random = np.random.default_rng(seed)
    drawn = [values[random.integers(len(values), size=(resamples, len(values)))] for values in strata]
    means = interquartile_mean(np.concatenate(drawn, axis=1))
    low, high = np.quantile(means, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)


def trailing_mean(x: np.ndarray, y: np.ndarray, width: float) -> np.ndarray:
    """[T] at each x, the mean of the y measured in (x - width, x]; NaN if there is none."""
    measured = np.isfinite(y)
    total = np.append(0.0, np.cumsum(np.where(measured, y, 0.0)))
    count = np.append(0, np.cumsum(measured))
    first = np.searchsorted(x, x - width, side="right")
    after = np.arange(1, len(x) + 1)
    number = count[after] - count[first]
    return np.where(number > 0, (total[after] - total[first]) / np.maximum(number, 1), np.nan)


def cost_to_reach(cumulative_cost: np.ndarray, reward: np.ndarray, level: float) -> float:
    """The cost that was paid by the end of the first epoch whose reward is at least `level`; infinite if none is."""
    reached = np.flatnonzero(reward >= level)
    return float(cumulative_cost[reached[0]]) if len(reached) else float("inf")
