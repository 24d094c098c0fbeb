"""Movable bodies that nothing disturbs: they need no simulation.

A vase or a box that lies still goes on lying still until the robot comes near, and a gremlin that nobody touches keeps
to the same path around its home in every world. Most of the time that is so of all movable bodies of a world, or of all
but one, and to simulate the robot alone, or with that one, takes a fraction of the time. It is decided anew in each
step, from the world's state alone.
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
        self._kinds = [objects.kind for objects in movable]
        self._resting = [kind for kind in self._kinds if kind != "gremlins"]
        # two bodies that do not meet in the next step
        self._between = 2.0 * max((reach(objects) for objects in movable), default=0.0) + _MARGIN
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
        self._found = known, disturbed = self._known(), self._disturbed()
        return known & ~disturbed.any(axis=1)

    def single(self, undisturbed: np.ndarray) -> np.ndarray:
        """[N] the one body that the next step must simulate, in worlds where one is enough; -1 in all others.

        It goes on from what `undisturbed` has found in the same state.
        """
        world = self._world
        only = np.full(len(world.envs), -1)
        if world.task.alike_movable < 2 or undisturbed.all():
            return only
        known, disturbed = self._found
        envs = np.flatnonzero(known & (disturbed.sum(axis=1) == 1))
        if len(envs):
            body, rows = disturbed[envs].argmax(axis=1), np.arange(len(envs))
            places = world.objects[envs, self._bodies[0]]
            offset = places - places[rows, body][:, None]
            square = offset[..., 0] ** 2 + offset[..., 1] ** 2
            square[rows, body] = np.inf
            velocity = world.movable_qvel(self._kinds[0])[envs, body]
            covered = 2.0 * world.step_seconds * np.sqrt(velocity[:, 0] ** 2 + velocity[:, 1] ** 2)
            alone = square.min(axis=1) > (self._between + covered) ** 2
            only[envs[alone]] = body[alone]
        return only

    def carry(self, undisturbed: np.ndarray, single: np.ndarray) -> None:
        """Move the gremlins that were not simulated along their path, to where the present step has them."""
        if not self._gremlins:
            return
        envs = np.flatnonzero(undisturbed | (single >= 0))
        if len(envs):
            qpos, qvel = self._expected(envs)
            touched = np.flatnonzero(single[envs] >= 0)
            body = single[envs[touched]]
            qpos[touched, body] = self._world.movable_qpos("gremlins")[envs[touched], body]
            qvel[touched, body] = self._world.movable_qvel("gremlins")[envs[touched], body]
            self._world.set_movable("gremlins", envs, qpos, qvel)

    def _known(self) -> np.ndarray:
        """[N] whether it is known what undisturbed bodies do."""
        world = self._world
        # what has just been placed has no speed, but settles: a vase sinks, a gremlin may be kicked by the floor
        known = self._clear & (world.steps > 0)
        return known & (world.steps + 1 < len(self._path)) if self._gremlins else known

    def _disturbed(self) -> np.ndarray:
        """[N, movable bodies] those that move, are off their path, or may meet the robot in the next step."""
        world = self._world
        qvel = world.physics.qvel
        covered = 2.0 * world.step_seconds * np.sqrt(qvel[:, 0] ** 2 + qvel[:, 1] ** 2)
        columns = []
        for kind, bodies, apart in zip(self._kinds, self._bodies, self._reaches, strict=True):
            disturbed = world.distance[:, bodies] <= apart + covered[:, None]
            if kind == "gremlins":
                disturbed |= self._off_path()
            else:
                disturbed |= np.abs(world.movable_qvel(kind)).max(axis=2) >= _STILL_SPEED
            columns.append(disturbed)
        return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)

    def _off_path(self) -> np.ndarray:
        world = self._world
        qpos, qvel = self._expected(world.envs)
        off = np.abs(world.movable_qpos("gremlins") - qpos).max(axis=2)
        off_speed = np.abs(world.movable_qvel("gremlins") - qvel).max(axis=2)
        return (off >= _OFF_PATH) | (off_speed >= _OFF_PATH_SPEED)

    def _expected(self, envs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places and rotations [n, gremlins, 7] and velocities [n, gremlins, 6] on the path after the present step."""
        homes, turns = self._world.gremlin_homes[envs], self._world.gremlin_turns[envs]
        steps = np.minimum(self._world.steps[envs], len(self._path) - 1)
        now = self._path[steps][:, None]
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
