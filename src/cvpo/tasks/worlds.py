"""From a task to its N worlds."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from cvpo.errors import BadValue
from cvpo.tasks.circle import Circle
from cvpo.tasks.description import NavigationTask
from cvpo.tasks.navigation import Navigation
from cvpo.tasks.physics import Physics
from cvpo.tasks.placement import FixedPlaces
from cvpo.tasks.registry import Task
from cvpo.tasks.rejection import Rejection
from cvpo.tasks.robots import ROBOTS
from cvpo.tasks.runners import Runner
from cvpo.tasks.shapes import Shape
from cvpo.tasks.velocity import Velocity


class World(Protocol):
    """What the vector environment and the pictures know of N worlds.

    Attributes:
      step_seconds: simulated seconds of a step.
      action_range: [2, actions] the smallest and the largest action.
      extent, follows: half the side of what a picture shows, in metres, and whether it follows the robot.
      side_view: whether the picture is from the side.
    """

    physics: Physics
    step_seconds: float
    action_range: np.ndarray
    extent: float
    follows: bool
    side_view: bool

    def begin(self, envs: np.ndarray) -> None: ...
    def advance(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]: ...
    def observe(self) -> np.ndarray: ...
    def pose(self, env: int) -> tuple[float, float, float]: ...
    def marks(self, env: int) -> list[Shape]: ...
    def get_state(self) -> dict[str, np.ndarray]: ...
    def set_state(self, state: dict[str, np.ndarray]) -> None: ...


def draws_as_safety_gym(task: Task) -> bool:
    """Whether the worlds draw from the legacy stream of the original."""
    return isinstance(task.rules, NavigationTask) and task.group != "paper"


def make_world(task: Task, rngs: list[np.random.Generator], threads: int, *, start: str, layout: str) -> World:
    """The worlds of a task; `rngs` [N] holds each one's generator."""
    rules = task.rules
    fixed_places = isinstance(rules, NavigationTask) and task.group == "paper"
    if not fixed_places and (start, layout) != ("fixed", "fixed"):
        raise BadValue(
            f"start and layout belong to the paper's Goal and Button tasks, got start={start!r}, layout={layout!r}: "
            f"leave them out, as {task.name} always draws its start"
        )
    if rules is None:
        return Circle(rngs, threads)
    if isinstance(rules, Runner):
        return Velocity(rules, rngs, threads)
    if not fixed_places:
        return Navigation(rules, Rejection(rules), rngs, threads)
    reach = ROBOTS[rules.robot].reach
    places = FixedPlaces(rules, reach, move_start=start == "random", move_objects=layout == "random")
    return Navigation(rules, places, rngs, threads)
