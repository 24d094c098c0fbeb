"""What the navigation tasks reward, and when a goal is reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from cvpo.tasks.navigation import Navigation

# Rewards beyond it are cut, other than in Run; it is never reached but by a simulation that blows up.
LIMIT = 10.0
_RUN_SCALE = 60.0
_RUN_TARGET = np.array([0.0, -1000.0])
_CIRCLE_SCALE = 0.1
# A disc's height, for distances in space.
GOAL_LIFT = 0.01


@dataclass(frozen=True)
class Reward:
    """A kind of reward.

    Attributes:
      potential: (world) -> [N]: its decrease in a step is rewarded.
      reached: (world, touched [N, solids]) -> [N]: whether the goal is reached, which earns 1 and brings the next;
        None: the task has no goal.
      rate: (world) -> [N]: what the present state earns; None: nothing.
      clipped: whether rewards are cut to ±10.
    """

    potential: Callable[[Navigation], np.ndarray] | None = None
    reached: Callable[[Navigation, np.ndarray], np.ndarray] | None = None
    rate: Callable[[Navigation], np.ndarray] | None = None
    clipped: bool = True


def _goal_distance(world: Navigation) -> np.ndarray:
    return world.distance[:, world.goal_index]


def _near_goal(world: Navigation, _: np.ndarray) -> np.ndarray:
    return world.distance[:, world.goal_index] <= world.goal_size


def _pressed(world: Navigation, touched: np.ndarray) -> np.ndarray:
    return touched[:, world.touch_of["buttons"]][world.envs, world.goal]


def _box_to_goal(world: Navigation) -> np.ndarray:
    """In space, between the centres."""
    box = world.movable_qpos("push_box")[:, 0]
    goal = world.objects[:, world.goal_index]
    lift = world.goal_size / 2 + GOAL_LIFT
    return np.sqrt((box[:, 0] - goal[:, 0]) ** 2 + (box[:, 1] - goal[:, 1]) ** 2 + (box[:, 2] - lift) ** 2)


def _push_distance(world: Navigation) -> np.ndarray:
    """From the robot to the box and on to the goal."""
    box, qpos = world.movable_qpos("push_box")[:, 0], world.physics.qpos
    rise = box[:, 2] - world.robot.height(qpos)
    to_box = np.sqrt((box[:, 0] - qpos[:, 0]) ** 2 + (box[:, 1] - qpos[:, 1]) ** 2 + rise**2)
    return to_box + _box_to_goal(world)


def _box_at_goal(world: Navigation, _: np.ndarray) -> np.ndarray:
    return _box_to_goal(world) <= world.goal_size


def _circling(world: Navigation) -> np.ndarray:
    """Counter-clockwise speed around the origin, best on the circle."""
    (x, y), (vx, vy) = world.physics.qpos[:, :2].T, world.physics.qvel[:, :2].T
    circle = world.task.of("circle")
    assert circle is not None
    radius = np.maximum(np.sqrt(x * x + y * y), 1e-12)
    return _CIRCLE_SCALE * ((x * vy - y * vx) / radius) / (1.0 + np.abs(radius - circle.size))


def _way_to_run(world: Navigation) -> np.ndarray:
    offset = world.physics.qpos[:, :2] - _RUN_TARGET
    return _RUN_SCALE * np.sqrt(offset[:, 0] ** 2 + offset[:, 1] ** 2)


REWARDS: dict[str, Reward] = {
    "goal": Reward(_goal_distance, _near_goal),
    "button": Reward(_goal_distance, _pressed),
    "push": Reward(_push_distance, _box_at_goal),
    "circle": Reward(rate=_circling),
    "run": Reward(_way_to_run, clipped=False),
}
