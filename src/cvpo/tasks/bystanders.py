"""Movable bodies that nothing disturbs: they need no simulation.

A vase or a box that lies still goes on lying still until the robot comes near, and a gremlin that nobody touches keeps
to the same path around its home in every world. Most of the time that is so of all movable bodies of a world, and to
simulate the robot alone takes a fraction of the time. It is decided anew in each step, from the world's state alone.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cvpo.tasks.arena import height, navigation_model
from cvpo.tasks.description import NavigationTask, Objects
from cvpo.tasks.physics import Physics

if TYPE_CHECKING:
    from cvpo.tasks.navigation import Navigation

# Below these a body lies still, or is on its path: in m/s and rad/s, and in m. A still body would creep by less than
# a tenth of a micrometre until it stops; a vase costs from a hundred times the speed on.
_STILL_SPEED = 1e-6
_OFF_PATH, _OFF_PATH_SPEED = 1e-6, 1e-5
# The robot stays farther away than what it covers in two steps, and this much.
_MARGIN = 0.05
# Paths are known for so many steps.
_PATH_STEPS = 2000
HOVER = 0.1


class Bystanders:
    """Tells in which of N worlds all movable bodies are undisturbed, and moves them there."""

    def __init__(self, world: Navigation):
        self._world = world
        task = world.task
        movable = [objects for objects in task.objects if objects.movable]
        self._possible = bool(movable)
        self._bodies = [task.slice_of(objects.kind) for objects in movable]
        self._reaches = [reach(objects) + world.robot.reach + _MARGIN for objects in movable]
        self._resting = [objects.kind for objects in movable if objects.kind != "gremlins"]
        gremlins = task.of("gremlins")
        self._gremlins = gremlins if gremlins and gremlins.movable else None
        self._clear = np.ones(len(world.envs), dtype=bool)
        if self._gremlins:
            timestep = world.physics.model.opt.timestep
            steps = min(task.episode_length, _PATH_STEPS)
            self._path = gremlin_path(replace(self._gremlins, number=1), timestep, world.substeps, steps)

    def arrange(self) -> None:
        """Look whether anything stands in the gremlins' way."""
        if not self._gremlins:
            return
        world, homes = self._world, self._world.gremlin_homes
        # any other movable body might be anywhere
        self._clear[:] = not self._resting
        for objects in world.task.objects:
            if not objects.solid:
                continue
            if objects.kind == "gremlins":
                # all are in phase
                gaps = np.linalg.norm(homes[:, :, None] - homes[:, None], axis=-1) - 2.0 * reach(objects)
                gaps[:, *np.diag_indices(homes.shape[1])] = np.inf
            else:
                places = world.objects[:, world.task.slice_of(objects.kind)]
                apart = reach(objects) + _reach_of_sides(self._gremlins) + self._gremlins.orbit
                gaps = np.linalg.norm(homes[:, :, None] - places[:, None], axis=-1) - apart
            self._clear &= (gaps > 0.0).all(axis=(1, 2))

    def undisturbed(self) -> np.ndarray:
        """[N] the worlds in which the next step need not simulate the movable bodies."""
        world = self._world
        if not self._possible:
            # there are none to simulate
            return np.ones(len(world.envs), dtype=bool)
        qvel = world.physics.qvel
        covered = 2.0 * world.step_seconds * np.sqrt(qvel[:, 0] ** 2 + qvel[:, 1] ** 2)
        # what has just been placed has no speed, but settles: a vase sinks, a gremlin may be kicked by the floor
        calm = self._clear & (world.steps > 0)
        for bodies, apart in zip(self._bodies, self._reaches, strict=True):
            calm &= world.distance[:, bodies].min(axis=1) > apart + covered
        for kind in self._resting:
            calm &= np.abs(world.movable_qvel(kind)).max(axis=(1, 2)) < _STILL_SPEED
        if self._gremlins and calm.any():
            calm &= world.steps + 1 < len(self._path)
            calm[calm] = self._on_path(np.flatnonzero(calm))
        return calm

    def carry(self, undisturbed: np.ndarray) -> None:
        """Move the undisturbed gremlins along their path, to where the present step has them."""
        if self._gremlins and undisturbed.any():
            envs = np.flatnonzero(undisturbed)
            qpos, qvel = self._expected(envs)
            self._world.set_movable("gremlins", envs, qpos, qvel)

    def _on_path(self, envs: np.ndarray) -> np.ndarray:
        qpos, qvel = self._expected(envs)
        off = np.abs(self._world.movable_qpos("gremlins")[envs] - qpos).max(axis=(1, 2))
        off_speed = np.abs(self._world.movable_qvel("gremlins")[envs] - qvel).max(axis=(1, 2))
        return (off < _OFF_PATH) & (off_speed < _OFF_PATH_SPEED)

    def _expected(self, envs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places and rotations [n, gremlins, 7] and velocities [n, gremlins, 6] on the path after the present step."""
        homes, turns = self._world.gremlin_homes[envs], self._world.gremlin_turns[envs]
        now = self._path[self._world.steps[envs]][:, None]
        qpos, qvel = np.empty((*homes.shape[:2], 7)), np.zeros((*homes.shape[:2], 6))
        qpos[..., :2] = homes + now[..., :2]
        qpos[..., 2] = now[..., 2]
        qpos[..., 3:] = turns
        qvel[..., :3] = now[..., 3:]
        return qpos, qvel


def reach(objects: Objects) -> float:
    """Radius of a ball around a solid object's centre that holds all of it."""
    # a push box has columns beyond its corners
    side = 1.5 * objects.size if objects.kind == "push_box" else objects.size
    if objects.kind in ("vases", "gremlins", "push_box"):
        return float(np.sqrt(2.0 * side**2 + objects.size**2))
    return objects.size


def _reach_of_sides(objects: Objects) -> float:
    """Radius around a box's centre that holds it as long as it stands upright."""
    return float(np.sqrt(2.0) * objects.size)


@functools.cache
def gremlin_path(gremlin: Objects, timestep: float, substeps: int, steps: int) -> np.ndarray:
    """[steps + 1, 6] offset from home x, y, height, and velocity, of a gremlin that nobody touches, after each step."""
    task = NavigationTask("Point", "run", (gremlin,))
    model = navigation_model(task)
    model.opt.timestep = timestep
    physics = Physics(model, 1, substeps)
    body, velocity = slice(3, 6), slice(3, 6)
    # the robot is far away
    physics.qpos[0, 0] = 1e3
    path = np.empty((steps + 1, 6))
    for step in range(steps + 1):
        path[step] = *physics.qpos[0, body], *physics.qvel[0, velocity]
        time = (step * substeps + np.arange(substeps)) * timestep
        physics.mocap[0, :, 0, :] = np.stack(
            [gremlin.orbit * np.sin(time), gremlin.orbit * np.cos(time), np.full(substeps, height(gremlin) + HOVER)], 1
        )
        physics.step()
    physics.close()
    return path
