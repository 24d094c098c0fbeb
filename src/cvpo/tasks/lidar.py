"""Lidar: how near the objects around a robot are, by direction."""

import numpy as np

BINS = 16


def lidar(
    forward: np.ndarray, left: np.ndarray, distance: np.ndarray, lidar_of: np.ndarray, lidars: int, reach: float = 3.0
) -> np.ndarray:
    """Readings of several lidars at once.

    An object at distance d gives v = max(0, reach - d) / reach to the bin it falls in; with f its fraction across that
    bin, the next bin gets f·v and the previous one (1 - f)·v. In each bin the largest value wins.

    Args:
      forward, left: [N, objects] each object's place along the robot's x and y axes (their scale does not matter).
      distance: [N, objects] its planar distance.
      lidar_of: [objects] which lidar sees it.
      lidars: how many there are.
      reach: the distance beyond which nothing is seen.

    Returns:
      [N, lidars, 16]; bin 0 begins at the robot's x axis, the bins run counter-clockwise.
    """
    envs = len(distance)
    direction = np.arctan2(left, forward) * (BINS / (2.0 * np.pi))
    bins = np.floor(direction)
    # for the object's own bin, the next and the previous one
    values, places = np.empty((3, *distance.shape)), np.empty((3, *distance.shape), dtype=np.int64)
    np.maximum(1.0 - distance / reach, 0.0, out=values[0])
    np.multiply(direction - bins, values[0], out=values[1])
    np.subtract(values[0], values[1], out=values[2])
    places[0] = bins
    np.add(places[0], 1, out=places[1])
    np.subtract(places[0], 1, out=places[2])
    places %= BINS
    places += (np.arange(envs)[:, None] * lidars + lidar_of) * BINS
    readings = np.zeros(envs * lidars * BINS)
    # a scatter of three values an object: a dense array over all bins takes twice the time
    np.maximum.at(readings, places.ravel(), values.ravel())
    return readings.reshape(envs, lidars, BINS)
