"""Safety Gym's placement: one object after another at a random place, from the original's own random stream.

The original draws from NumPy's legacy `RandomState`. With the same stream a seed gives the same layout, digit by digit.
"""

from __future__ import annotations

import numpy as np

from cvpo.errors import UserError
from cvpo.tasks.description import NavigationTask
from cvpo.tasks.placement import Layout

_TRIES = 100  # for one object, before the whole layout is begun anew
_LAYOUTS = 10_000
_GOAL_TRIES = 10_000
# Objects with a fixed place are drawn too, from as small a square around it.
_JITTER = 1e-9
# An object that is placed easily needs few tries: so many are looked at one by one before the rest at once.
_SINGLE = 4


class NoRoom(UserError, RuntimeError):
    """The objects do not fit into the arena."""


class Rejection:
    """Places the objects of one task."""

    def __init__(self, task: NavigationTask):
        keepouts, low, high = [], [], []

        def add(keepout: float, corner: tuple[float, float], opposite: tuple[float, float]) -> None:
            keepouts.append(keepout)
            low.append(corner)
            high.append(opposite)

        room = task.arena - task.start_keepout
        x, y, right, top = task.start or (-room, -room, room, room)
        add(task.start_keepout, (x, y), (right, top))
        for objects in task.objects:
            half = task.arena - objects.keepout
            for i in range(objects.number):
                if objects.places:
                    px, py = objects.places[i]
                    add(objects.keepout, (px - _JITTER, py - _JITTER), (px + _JITTER, py + _JITTER))
                else:
                    add(objects.keepout, (-half, -half), (half, half))
        for px, py in task.walls.places():
            add(0.0, (px - _JITTER, py - _JITTER), (px + _JITTER, py + _JITTER))
        self._count = sum(objects.number for objects in task.objects)
        self._low, self._range = np.array(low), np.array(high) - np.array(low)
        self._boxes = [(*corner, *span) for corner, span in zip(low, self._range.tolist(), strict=True)]
        self._keepouts = np.array(keepouts)
        # [i, j] squared distance at which i and j may stand beside each other
        self._apart = (self._keepouts[:, None] + self._keepouts) ** 2
        self._apart_list = self._apart.tolist()
        goal = task.slice_of("goal")
        self._goal = goal.start + 1 if goal.stop > goal.start else 0

    def draw(self, rng: np.random.Generator) -> Layout:
        """A whole layout."""
        places = self._draw_places(rng)
        heading, *angles = rng.uniform(0.0, 2.0 * np.pi, len(places))
        count = self._count
        return Layout(places[0], float(heading), places[1 : 1 + count], np.array(angles[:count]))

    def draw_goal(self, rng: np.random.Generator, start: np.ndarray, places: np.ndarray) -> np.ndarray | None:
        """A place for the goal, clear of the robot and of all objects where they are now; None: there is none."""
        low, span = self._low[self._goal], self._range[self._goal]
        standing = np.vstack([start, places])
        others = np.arange(len(standing)) != self._goal
        standing, apart = standing[others], self._apart[self._goal, : len(others)][others]
        for _ in range(_GOAL_TRIES):
            place = low + span * rng.random(2)
            offset = standing - place
            if (offset[:, 0] ** 2 + offset[:, 1] ** 2 >= apart).all():
                return place
        return None

    def choose(self, rng: np.random.Generator, number: int) -> int:
        """One of so many, as the legacy `choice` draws it."""
        return int(np.random.RandomState(rng.bit_generator).randint(number))

    def tick(self, rng: np.random.Generator) -> None:
        """What each step of the original draws: its number of sub-steps, of which only one is possible."""
        rng.random()

    def _draw_places(self, rng: np.random.Generator) -> np.ndarray:
        """[1 + objects + walls, 2]; draws x, then y for every try of every object, as the original does."""
        source = _Source(rng)
        for _ in range(_LAYOUTS):
            places = self._attempt(source)
            if places is not None:
                source.give_back()
                return places
        raise NoRoom(
            f"no layout found in {_LAYOUTS} attempts: make the arena larger, or the objects or their keepouts fewer or "
            "smaller"
        )

    def _attempt(self, source: _Source) -> np.ndarray | None:
        places = np.empty((2, len(self._boxes)))
        xs: list[float] = []
        ys: list[float] = []
        for i, (low_x, low_y, range_x, range_y) in enumerate(self._boxes):
            apart = self._apart_list[i]
            for _ in range(_SINGLE):
                u, v = source.pair()
                x, y = low_x + range_x * u, low_y + range_y * v
                for px, py, least in zip(xs, ys, apart, strict=False):
                    dx, dy = px - x, py - y
                    if dx * dx + dy * dy < least:
                        break
                else:
                    break
            else:
                u_rest, v_rest = source.pairs(_TRIES - _SINGLE).T
                x_rest, y_rest = low_x + range_x * u_rest, low_y + range_y * v_rest
                square = np.subtract.outer(places[0, :i], x_rest)
                square *= square
                offset = np.subtract.outer(places[1, :i], y_rest)
                offset *= offset
                square += offset
                clear = (square >= self._apart[:i, i, None]).all(axis=0)
                first = int(clear.argmax())
                if not clear[first]:
                    source.take(_TRIES - _SINGLE)
                    return None
                source.take(first + 1)
                x, y = x_rest.item(first), y_rest.item(first)
            xs.append(x)
            ys.append(y)
            places[:, i] = x, y
        return places.T


class _Source:
    """Draws pairs of random numbers in large blocks, and gives back what was too much."""

    _FIRST_BLOCK, _LARGEST_BLOCK = 128, 1024

    def __init__(self, rng: np.random.Generator):
        self._rng, self._state = rng, rng.bit_generator.state
        self._numbers = np.empty((0, 2))
        self._list: list[list[float]] = []
        self._at = self._before = 0
        self._block = self._FIRST_BLOCK

    def pair(self) -> list[float]:
        if self._at >= len(self._list):
            self._more()
        self._at += 1
        return self._list[self._at - 1]

    def pairs(self, number: int) -> np.ndarray:
        """The next pairs [number, 2]; `take` says how many of them are used."""
        if self._at + number > len(self._list):
            self._more()
        return self._numbers[self._at : self._at + number]

    def take(self, number: int) -> None:
        self._at += number

    def give_back(self) -> None:
        """Put the generator behind the last number that was used."""
        self._rng.bit_generator.state = self._state
        self._rng.random(2 * (self._before + self._at))

    def _more(self) -> None:
        self._before += self._at
        rest = self._numbers[self._at :]
        self._numbers = np.concatenate([rest, self._rng.random((self._block, 2))])
        # most tasks need few, Button thousands
        self._block = min(2 * self._block, self._LARGEST_BLOCK)
        self._list, self._at = self._numbers.tolist(), 0
