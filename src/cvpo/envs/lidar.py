"""Lidar: how near the objects around a robot are, by direction."""

import numpy as np

BINS = 16
RANGE = 3.0

# The bins' centres, counted in bins from the robot's x axis, wrapped into (-8, 8) as arctan2 wraps angles.
_CENTRES = (np.arange(BINS) + 0.5 + BINS / 2) % BINS - BINS / 2


def lidar(forward: np.ndarray, left: np.ndarray, distance: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Readings of several lidars at once.

    An object at distance d gives v = max(0, 3 - d) / 3 to the bin it falls in; f being its fraction across that bin, the
    next bin gets f·v and the previous one (1 - f)·v. With w the object's distance from a bin's centre, counted in bins
    around the circle, all three are v·clip(1.5 - w, 0, 1). In each bin the largest value wins.

    Args:
      forward, left: [N, objects] each object's place along the robot's x and y axes (their scale does not matter).
      distance: [N, objects] its planar distance.
      groups: [lidars] index of each lidar's first object; the objects of one lidar stand together.

    Returns:
      [N, lidars, 16]
    """
    direction = np.arctan2(left, forward) * (BINS / (2.0 * np.pi))
    strength = np.maximum(0.0, RANGE - distance) / RANGE
    gap = np.abs(direction[..., None] - _CENTRES)
    # around the circle the distance is 8 - |8 - gap|; worked in place, as these are the largest arrays of a step
    gap -= BINS / 2
    np.abs(gap, out=gap)
    gap -= BINS / 2 - 1.5
    np.clip(gap, 0.0, 1.0, out=gap)
    gap *= strength[..., None]
    return np.maximum.reduceat(gap, groups, axis=1)
