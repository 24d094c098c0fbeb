"""Where the objects of the Goal and Button tasks stand, and how a random layout is drawn."""

from dataclasses import dataclass, replace

import numpy as np

BUTTON_RADIUS = 0.1
GREMLIN_HALF_SIZE = 0.1
GREMLIN_ORBIT = 0.3
# Random places are drawn in the square |x|, |y| <= 2, which holds every object of the fixed layouts.
HALF_EXTENT = 2.0

# A gremlin's corner, at the far side of its orbit.
_GREMLIN_REACH = GREMLIN_ORBIT + np.sqrt(2.0) * GREMLIN_HALF_SIZE
# Solids placed exactly side by side would touch by rounding.
_CLEARANCE = 0.02
_CANDIDATES = 64


@dataclass(frozen=True)
class Layout:
    """Places on the plane, in metres: start [2], buttons [B, 2], hazards [H, 2], gremlins [G, 2] (their homes)."""

    start: np.ndarray
    buttons: np.ndarray
    hazards: np.ndarray
    hazard_radius: float
    gremlins: np.ndarray


def _places(*places: tuple[float, float]) -> np.ndarray:
    return np.array(places, dtype=float).reshape(-1, 2)


GOAL = Layout(
    start=np.array([0.14, 0.60]),
    buttons=_places((-1.1, -1.3), (1.8, -1.5), (-1.4, 0.6), (1.0, 1.3)),
    hazards=_places(
        (0.1, -1.9), (-0.2, 1.7), (0.3, 0.1), (2, -0.1), (-1.8, 0.2), (-0.1, -1.2),
        (0, 1.3), (1.1, 0), (-1, 0), (0.2, -0.9), (-1.1, 1.1),
    ),
    hazard_radius=0.22,
    gremlins=_places(),
)  # fmt: skip

BUTTON = Layout(
    start=np.array([0.7, 0.7]),
    buttons=_places((-1.3, -1.3), (1.3, -1.3), (-1.3, 1.3), (1.3, 1.3)),
    hazards=_places((0, -1.9), (0, 1.9), (0, 0), (1.9, 0), (-1.9, 0)),
    hazard_radius=0.17,
    gremlins=_places((0, -1.3), (0, 1.3), (1.3, 0), (-1.3, 0)),
)


def draw(
    layout: Layout, robot_reach: float, rng: np.random.Generator, *, move_start: bool, move_objects: bool
) -> Layout:
    """`layout` with its start, its objects or both placed at random, nothing overlapping anything.

    A robot of radius `robot_reach` at the start touches nothing and stands in no hazard; gremlins keep their
    whole orbit free.
    """
    counts = len(layout.gremlins), len(layout.hazards), len(layout.buttons)
    radii = np.repeat([_GREMLIN_REACH, layout.hazard_radius, BUTTON_RADIUS], counts) + _CLEARANCE
    fixed_places = np.concatenate([layout.gremlins, layout.hazards, layout.buttons])
    while True:
        places, placed_radii = np.empty((0, 2)), np.empty(0)
        if not move_objects:
            places, placed_radii = fixed_places, radii
        if not move_start:
            places, placed_radii = np.vstack([places, layout.start]), np.append(placed_radii, robot_reach)
        # the largest first: they have the fewest places left once the small ones stand
        wanted = list(radii) if move_objects else []
        drawn = _fill(places, placed_radii, wanted + [robot_reach] * move_start, rng)
        if drawn is None:
            continue
        if move_start:
            layout = replace(layout, start=drawn[-1])
        if move_objects:
            gremlins, hazards, buttons = np.split(drawn[: len(radii)], np.cumsum(counts[:2]))
            layout = replace(layout, gremlins=gremlins, hazards=hazards, buttons=buttons)
        return layout


def _fill(places: np.ndarray, radii: np.ndarray, wanted: list[float], rng: np.random.Generator) -> np.ndarray | None:
    """Places [len(wanted), 2] for discs of the radii `wanted` among those that stand; None if one finds no room."""
    standing = len(places)
    for radius in wanted:
        candidates = rng.uniform(-HALF_EXTENT, HALF_EXTENT, (_CANDIDATES, 2))
        gaps = np.linalg.norm(candidates[:, None] - places, axis=-1) - radii
        free = np.flatnonzero((gaps > radius).all(axis=1))
        if not len(free):
            return None
        places, radii = np.vstack([places, candidates[free[0]]]), np.append(radii, radius)
    return places[standing:]
