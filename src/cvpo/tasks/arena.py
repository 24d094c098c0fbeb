"""MuJoCo models: a robot's MJCF with the solids of a task around it."""

from pathlib import Path

import mujoco
import numpy as np

from cvpo.tasks.placement import BUTTON_RADIUS, GREMLIN_HALF_SIZE, Layout
from cvpo.tasks.robots import Robot

_MODELS = Path(__file__).parent / "models"
_BUTTON_COLOUR = [0.95, 0.62, 0.16, 1.0]
_GREMLIN_COLOUR = [0.55, 0.25, 0.75, 1.0]

# One robot's contacts make one island, and few geoms a body: looking for islands, or for a body's parts in a tree, is
# wasted. And a cold solver converges here in fewer iterations than one started from the last sub-step's accelerations,
# which the changing contacts make useless.
_DISABLED = (
    mujoco.mjtDisableBit.mjDSBL_ISLAND.value
    | mujoco.mjtDisableBit.mjDSBL_MIDPHASE.value
    | mujoco.mjtDisableBit.mjDSBL_WARMSTART.value
)

# What the robots' parts meet, as their MJCF says in contype.
_SOLID, _FLOOR = 1, 2


def load(model: str) -> mujoco.MjSpec:
    """The robot's MJCF, with the solver's options for its tasks."""
    spec = mujoco.MjSpec.from_file(str(_MODELS / model))
    spec.option.disableflags |= _DISABLED
    return spec


def add_floor(spec: mujoco.MjSpec) -> None:
    """A plane at height 0."""
    spec.worldbody.add_geom(
        name="floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[10, 10, 0.1],
        contype=0,
        conaffinity=_FLOOR,
        rgba=[0.93, 0.94, 0.95, 1.0],
    )


def navigation_model(robot: Robot, layout: Layout) -> mujoco.MjModel:
    """The model of a Goal or Button task.

    Buttons, then gremlins, are mocap bodies, so that each simulation places its own; each has a touch sensor.
    """
    spec = load(robot.model)
    if robot.on_floor:
        add_floor(spec)
    for i, place in enumerate(layout.buttons):
        _add_solid(spec, f"button{i}", place, mujoco.mjtGeom.mjGEOM_SPHERE, BUTTON_RADIUS, _BUTTON_COLOUR)
    for i, place in enumerate(layout.gremlins):
        _add_solid(spec, f"gremlin{i}", place, mujoco.mjtGeom.mjGEOM_BOX, GREMLIN_HALF_SIZE, _GREMLIN_COLOUR)
    _name_pairs(spec)
    return spec.compile()


def circle_model(wall_distance: float) -> mujoco.MjModel:
    """The model of Car-Circle: the race car inside an octagon of walls, each so far from the centre."""
    spec = load("race_car.xml")
    for i in range(8):
        inward = np.array([-np.cos(i * np.pi / 4), -np.sin(i * np.pi / 4), 0.0])
        spec.worldbody.add_geom(
            name=f"wall{i}", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[5, 1, 0.1], pos=-wall_distance * inward,
            zaxis=inward, contype=0, conaffinity=_SOLID, rgba=[0.6, 0.63, 0.68, 1.0],
        )  # fmt: skip
    return spec.compile()


def _add_solid(
    spec: mujoco.MjSpec, name: str, place: np.ndarray, shape: mujoco.mjtGeom, size: float, colour: list[float]
) -> None:
    body = spec.worldbody.add_body(name=name, mocap=True, pos=[*place, size])
    body.add_geom(name=name, type=shape, size=[size] * 3, condim=6, contype=0, conaffinity=_SOLID, rgba=colour)
    # the sensor adds up the forces of the contacts inside its site: twice the solid's size leaves none out
    body.add_site(name=name, type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[2 * size] * 3, rgba=[0, 0, 0, 0])
    spec.add_sensor(name=name, type=mujoco.mjtSensor.mjSENS_TOUCH, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=name)


def _name_pairs(spec: mujoco.MjSpec) -> None:
    """Name every two geoms that may touch, instead of letting MuJoCo search for those that are near.

    They are so few that trying each takes less: the same physics bit for bit in a twelfth less time.
    """
    pairs = [(a, b) for b in spec.geoms for a in spec.geoms if b.contype & a.conaffinity]
    for a, b in pairs:
        sliding, torsion, rolling = np.maximum(a.friction, b.friction)
        spec.add_pair(
            geomname1=a.name, geomname2=b.name, condim=max(a.condim, b.condim),
            friction=[sliding, sliding, torsion, rolling, rolling],
        )  # fmt: skip
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = 0
