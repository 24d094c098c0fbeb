"""Flat shapes that a world puts on its picture, in metres; `look` names the colours."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Disc:
    """A disc around (x, y)."""

    x: float
    y: float
    radius: float
    look: str


@dataclass(frozen=True)
class Polygon:
    """A polygon through `corners`."""

    corners: list[tuple[float, float]]
    look: str


Shape = Disc | Polygon
