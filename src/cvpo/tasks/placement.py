"""Where the objects of the paper's Goal and Button tasks stand, and how a random layout of them is drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cvpo.tasks.description import NavigationTask

# A gremlin reaches as far as the corner of its box, at the far side of its orbit.
_DIAGONAL = np.sqrt(2.0)
# Solids placed exactly side by side would touch by rounding.
_CLEARANCE = 0.02
_CANDIDATES = 64
# The largest first: they have the fewest places left once the small ones stand.
_ORDER = ("gremlins", "hazards", "buttons")


@dataclass(frozen=True)
class Layout:
    """Where everything stands at the start: the robot [2] with its heading, and each object [objects, 2], [objects]."""

    start: np.ndarray
    heading: float
    places: np.ndarray
    angles: np.ndarray


class FixedPlaces:
    """The task's own places, or random ones for the start, the objects or both."""

    def __init__(self, task: NavigationTask, robot_reach: float, *, move_start: bool, move_objects: bool):
        """A robot of radius `robot_reach` at a random start touches nothing and stands in no hazard."""
        assert task.start is not None
        self._start, self._half_side = np.array(task.start[:2]), task.arena
        self._robot_reach, self._move_start, self._move_objects = robot_reach, move_start, move_objects
        self._places = np.zeros((sum(objects.number for objects in task.objects), 2))
        wanted: list[np.ndarray] = []
        radii: list[float] = []
        for kind in _ORDER:
            objects = task.of(kind)
            if objects is None:
                continue
            where = task.slice_of(kind)
            self._places[where] = objects.places
            reach = objects.orbit + _DIAGONAL * objects.size if kind == "gremlins" else objects.size
            wanted.append(np.arange(where.start, where.stop))
            radii += [reach + _CLEARANCE] * objects.number
        self._wanted, self._radii = np.concatenate(wanted), np.array(radii)

    def draw(self, rng: np.random.Generator) -> Layout:
        """A whole layout; the heading is always random."""
        start, places = self._start, self._places
        if self._move_start or self._move_objects:
            start, places = self._draw_places(rng)
        return Layout(start, rng.uniform(0.0, 2.0 * np.pi), places, np.zeros(len(places)))

    def choose(self, rng: np.random.Generator, number: int) -> int:
        """One of so many."""
        return int(rng.integers(number))

    def tick(self, rng: np.random.Generator) -> None:
        """A step of the task draws nothing."""

    def _draw_places(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Nothing overlaps anything; gremlins keep their whole orbit free."""
        while True:
            standing, radii = np.empty((0, 2)), np.empty(0)
            if not self._move_objects:
                standing, radii = self._places[self._wanted], self._radii
            if not self._move_start:
                standing, radii = np.vstack([standing, self._start]), np.append(radii, self._robot_reach)
            wanted = list(self._radii) if self._move_objects else []
            drawn = self._fill(standing, radii, wanted + [self._robot_reach] * self._move_start, rng)
            if drawn is None:
                continue
            start, places = self._start, self._places
            if self._move_start:
                start = drawn[-1]
            if self._move_objects:
                places = places.copy()
                places[self._wanted] = drawn[: len(self._radii)]
            return start, places

    def _fill(
        self, places: np.ndarray, radii: np.ndarray, wanted: list[float], rng: np.random.Generator
    ) -> np.ndarray | None:
        """Places [len(wanted), 2] for discs of the radii `wanted` among those that stand; None if one finds no room."""
        standing = len(places)
        for radius in wanted:
            candidates = rng.uniform(-self._half_side, self._half_side, (_CANDIDATES, 2))
            gaps = np.linalg.norm(candidates[:, None] - places, axis=-1) - radii
            free = np.flatnonzero((gaps > radius).all(axis=1))
            if not len(free):
                return None
            places, radii = np.vstack([places, candidates[free[0]]]), np.append(radii, radius)
        return places[standing:]
