"""Lidar: how near the objects around a robot are, by direction."""

import numpy as np

BINS = 16
RANGE = 3.0


def lidar(forward: np.ndarray, left: np.ndarray, distance: np.ndarray, lidar_of: np.ndarray, lidars: int) -> np.ndarray:
    """Readings of several lidars at once.

    An object at distance d gives v = max(0, 3 - d) / 3 to the bin it falls in; with f its fraction across that bin, the
    next bin gets f·v and the previous one (1 - f)·v. In each bin the largest value wins.

    Args:
      forward, left: [N, objects] each object's place along the robot's x and y axes (their scale does not matter).
      distance: [N, objects] its planar distance.
      lidar_of: [objects] which lidar sees it.
      lidars: how many there are.

    Returns:
      [N, lidars, 16]; bin 0 begins at the robot's x axis, the bins run counter-clockwise.
    """
    envs = len(distance)
    direction = np.arctan2(left, forward) * (BINS / (2.0 * np.pi))
    bins = np.floor(direction)
    strength = np.maximum(0.0, RANGE - distance) / RANGE
    to_next = (direction - bins) * strength
    values = np.stack([strength, to_next, strength - to_next])
    own = bins.astype(np.int64)
    places = np.stack([own, own + 1, own - 1]) % BINS
    places += (np.arange(envs)[:, None] * lidars + lidar_of) * BINS
    readings = np.zeros(envs * lidars * BINS)
    # a scatter of three values an object: a dense array over all bins takes twice the time
    np.maximum.at(readings, places.ravel(), values.ravel())
    return readings.reshape(envs, lidars, BINS)
