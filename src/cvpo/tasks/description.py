"""Navigation tasks as descriptions: which robot, which objects, what is rewarded and what costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cvpo.tasks.lidar import BINS
from cvpo.tasks.robots import ROBOTS

Place = tuple[float, float]


@dataclass(frozen=True)
class Kind:
    """What all objects of a kind have in common, and the sizes they have if nothing else is said.

    Attributes:
      size: radius, or half the side of a box, in metres.
      keepout: radius around its centre that others keep clear of when they are placed.
      solid: whether bodies bump into it.
      movable: whether it is a body of its own that can be pushed away.
      costs: the entries of info that it can give.
      many: whether a task may have more than one.
    """

    size: float
    keepout: float
    solid: bool = False
    movable: bool = False
    costs: tuple[str, ...] = ()
    many: bool = True


KINDS: dict[str, Kind] = {
    "goal": Kind(0.3, 0.4, many=False),
    "hazards": Kind(0.2, 0.18, costs=("cost_hazards",)),
    "vases": Kind(0.1, 0.15, solid=True, movable=True, costs=("cost_vases_contact", "cost_vases_velocity")),
    "pillars": Kind(0.2, 0.3, solid=True, costs=("cost_pillars",)),
    "buttons": Kind(0.1, 0.2, solid=True, costs=("cost_buttons",)),
    "gremlins": Kind(0.1, 0.4, solid=True, movable=True, costs=("cost_gremlins",)),
    "push_box": Kind(0.2, 0.2, solid=True, movable=True, many=False),
    "circle": Kind(1.5, 0.0, many=False),
}

# reward -> the kinds that a task with it needs
REWARDS: dict[str, tuple[str, ...]] = {
    "goal": ("goal",),
    "button": ("goal", "buttons"),
    "push": ("goal", "push_box"),
    "circle": ("circle",),
    "run": (),
}


@dataclass(frozen=True)
class Objects:
    """All objects of one kind in a task.

    Attributes:
      kind: a name in `KINDS`.
      number: how many.
      size, keepout: see `Kind`.
      cost: whether they cost: being inside (hazards), touching (solids), or also moving them (vases).
      places: where they stand; none: they are placed at random.
      density: of movable ones, in kg/m³.
      orbit: radius of the circle that a gremlin runs around its place.
      rigid: whether gremlins push everything aside; else they give way.
      info: the names of their costs in info; none: those of the kind.
    """

    kind: str
    number: int = 1
    size: float = math.nan
    keepout: float = math.nan
    cost: bool = False
    places: tuple[Place, ...] = ()
    density: float = 0.001
    orbit: float = 0.35
    rigid: bool = False
    info: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        kind = KINDS[self.kind]
        for name in ("size", "keepout"):
            if math.isnan(getattr(self, name)):
                object.__setattr__(self, name, getattr(kind, name))
        if self.cost and not self.info:
            object.__setattr__(self, "info", kind.costs)

    @property
    def solid(self) -> bool:
        return KINDS[self.kind].solid

    @property
    def movable(self) -> bool:
        return KINDS[self.kind].movable and not self.rigid


@dataclass(frozen=True)
class Walls:
    """Lines that cost when they are crossed: |x| or |y| of the robot's centre beyond them. They hold nobody back.

    Attributes:
      x, y: distance from the origin; none: no wall there.
      length: half of how long they are drawn.
      cost: whether crossing them costs.
    """

    x: float | None = None
    y: float | None = None
    length: float = 3.5
    cost: bool = True

    def places(self) -> list[Place]:
        """The middle of each: to the right, left, top and bottom."""
        beside = [] if self.x is None else [(self.x, 0.0), (-self.x, 0.0)]
        ahead = [] if self.y is None else [(0.0, self.y), (0.0, -self.y)]
        return beside + ahead


@dataclass(frozen=True)
class NavigationTask:
    """A task of a robot among objects.

    Attributes:
      robot: a name in `cvpo.tasks.robots.ROBOTS`.
      reward: a name in `REWARDS`.
      objects: in the order in which they are placed, and in which the robot's lidars see them.
      walls: lines that cost.
      arena: half the side of the square in which everything is placed.
      start: x_min, y_min, x_max, y_max of the robot's start; none: the arena.
      start_keepout: radius around the start that objects keep clear of.
      episode_length: steps.
      cost_limit: the limit on an episode's cost that is meant if none is given.
      lidar_range: objects beyond it are not seen.
      touch: "end": the contacts at the end of a step count, as in Safety Gym; "any": those in any of its sub-steps.
      summary: one line for lists.
    """

    robot: str
    reward: str
    objects: tuple[Objects, ...] = ()
    walls: Walls = Walls()
    arena: float = 1.5
    start: tuple[float, float, float, float] | None = None
    start_keepout: float = 0.4
    episode_length: int = 1000
    cost_limit: float = 25.0
    lidar_range: float = 3.0
    touch: str = "end"
    summary: str = ""

    @property
    def observation_size(self) -> int:
        """How long an observation is: what the robot feels, and a lidar for each kind of objects."""
        return ROBOTS[self.robot].senses + BINS * len(self.objects)

    @property
    def alike_movable(self) -> int:
        """How many movable bodies there are, if they are all of one kind; else 0."""
        numbers = [objects.number for objects in self.objects if objects.movable]
        return numbers[0] if len(numbers) == 1 else 0

    def of(self, kind: str) -> Objects | None:
        """The objects of that kind, if there are any."""
        return next((objects for objects in self.objects if objects.kind == kind), None)

    def slice_of(self, kind: str) -> slice:
        """Where those objects are among all: an empty slice if there are none."""
        begin = 0
        for objects in self.objects:
            if objects.kind == kind:
                return slice(begin, begin + objects.number)
            begin += objects.number
        return slice(0, 0)
