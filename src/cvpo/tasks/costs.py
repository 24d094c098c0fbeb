"""What costs in the navigation tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cvpo.tasks.description import Objects

if TYPE_CHECKING:
    from cvpo.tasks.navigation import Navigation

# A vase costs from this speed on, in m/s.
_VASE_SPEED = 1e-4


def costs(world: Navigation, touched: np.ndarray) -> dict[str, np.ndarray]:
    """`cost` and its parts, 0 or 1 each [N], at the end of a step; `touched` [N, solids] by the robot."""
    parts: dict[str, np.ndarray] = {}
    for objects in world.task.objects:
        if objects.cost:
            parts |= dict(zip(objects.info, _causes(world, objects, touched), strict=True))
    walls = world.task.walls
    if walls.cost and walls.places():
        x, y = np.abs(world.physics.qpos[:, :2].T)
        beyond_x, beyond_y = (np.inf if limit is None else limit for limit in (walls.x, walls.y))
        parts["cost_out_of_boundary"] = (x > beyond_x) | (y > beyond_y)
    cost = np.zeros(len(world.envs), dtype=bool)
    for part in parts.values():
        cost |= part
    return {"cost": cost.astype(float), **{name: part.astype(float) for name, part in parts.items()}}


def _causes(world: Navigation, objects: Objects, touched: np.ndarray) -> tuple[np.ndarray, ...]:
    """Whether each of the objects' costs falls due, [N]."""
    if objects.kind == "hazards":
        distance = world.distance[:, world.task.slice_of("hazards")]
        return (np.any(distance <= objects.size, axis=1),)
    touches = touched[:, world.touch_of[objects.kind]]
    if objects.kind == "buttons":
        # the goal button may be touched
        right = touches[world.envs, world.goal] if world.task.reward == "button" else 0
        return ((touches.sum(axis=1) > right) & (world.cooldown == 0),)
    contact = np.any(touches, axis=1)
    if objects.kind == "vases":
        velocity = world.movable_qvel("vases")[..., :3]
        return contact, np.any(np.square(velocity).sum(axis=-1) >= _VASE_SPEED**2, axis=1)
    return (contact,)
