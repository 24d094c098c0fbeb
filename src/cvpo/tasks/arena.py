"""MuJoCo models: a robot's MJCF with the solids of a task around it."""

from pathlib import Path

import mujoco
import numpy as np

from cvpo.tasks.description import NavigationTask, Objects
from cvpo.tasks.robots import ROBOTS

_MODELS = Path(__file__).parent / "models"
_COLOURS = {
    "buttons": [0.95, 0.62, 0.16, 1.0],
    "gremlins": [0.55, 0.25, 0.75, 1.0],
    "vases": [0.25, 0.70, 0.75, 1.0],
    "pillars": [0.45, 0.48, 0.55, 1.0],
    "push_box": [0.85, 0.72, 0.25, 1.0],
}

# One robot's contacts make one island, and few geoms a body: looking for islands (but see `navigation_model`), or for a
# body's parts in a tree, is wasted. And a cold solver converges here in fewer iterations than one started from the last
# sub-step's accelerations, which the changing contacts make useless.
DISABLED = (
    mujoco.mjtDisableBit.mjDSBL_ISLAND.value
    | mujoco.mjtDisableBit.mjDSBL_MIDPHASE.value
    | mujoco.mjtDisableBit.mjDSBL_WARMSTART.value
)

# What the robots' parts meet, as their MJCF says in contype.
_SOLID, _FLOOR = 1, 2

# A vase starts a little in the floor, a pillar is tall; the others rest on the floor.
_VASE_SINK = 4e-5
PILLAR_HALF_HEIGHT = 0.5
# The weld that holds a gremlin to its path. Its torque scale makes a touched gremlin turn as it did in the MuJoCo of
# the original, which took the translational inverse weight for rotations too: 150 times smaller for these boxes.
_WELD_SOLREF = [0.02, 1.5]
_WELD_TORQUE = np.sqrt(150.0)


def load(model: str) -> mujoco.MjSpec:
    """The robot's MJCF, with the solver's options for its tasks."""
    spec = mujoco.MjSpec.from_file(str(_MODELS / model))
    spec.option.disableflags |= DISABLED
    return spec


def height(objects: Objects) -> float:
    """At which height the centres of solid objects stand at the start."""
    match objects.kind:
        case "pillars":
            return PILLAR_HALF_HEIGHT
        case "vases":
            return objects.size - _VASE_SINK
        case _:
            return objects.size


def navigation_model(task: NavigationTask, *, movable: bool = True, sensing: bool = False) -> mujoco.MjModel:
    """The model of a navigation task.

    Solids that stay, and the paths of gremlins, are mocap bodies, so that each simulation places its own. Movable ones
    are free bodies that follow the robot in the state.

    Args:
      task: what stands around the robot.
      movable: whether movable bodies are part of it.
      sensing: give it an accelerometer, and a sensor of the robot's contact with each solid: first of those that
        stay, then of the movable ones. If not, the solids of a task where a touch in any sub-step counts have touch
        sensors.
    """
    robot = ROBOTS[task.robot]
    spec = load(robot.model)
    if robot.on_floor or (movable and any(objects.movable for objects in task.objects)):
        _add_floor(spec)
    still = [objects for objects in task.objects if objects.solid and not objects.movable]
    moving = [objects for objects in task.objects if objects.movable]
    for objects in still:
        for i in range(objects.number):
            _add_still(spec, objects, f"{objects.kind}{i}", touch_sensor=task.touch == "any")
    for objects in moving:
        for i in range(objects.number):
            if objects.kind == "gremlins":
                spec.worldbody.add_body(name=f"path{i}", mocap=True)
            if movable:
                _add_movable(spec, objects, i)
    if movable and moving and robot.on_floor:
        # the bodies around a robot that is in contact all the time are islands of their own
        spec.option.disableflags &= ~mujoco.mjtDisableBit.mjDSBL_ISLAND.value
    if sensing:
        _add_senses(spec, still + (moving if movable else []))
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


def _add_floor(spec: mujoco.MjSpec) -> None:
    spec.worldbody.add_geom(
        name="floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[10, 10, 0.1],
        contype=0,
        conaffinity=_FLOOR,
        rgba=[0.93, 0.94, 0.95, 1.0],
    )


def _add_still(spec: mujoco.MjSpec, objects: Objects, name: str, touch_sensor: bool) -> None:
    size = objects.size
    shape, sizes = {
        "buttons": (mujoco.mjtGeom.mjGEOM_SPHERE, [size] * 3),
        "gremlins": (mujoco.mjtGeom.mjGEOM_BOX, [size] * 3),
        "pillars": (mujoco.mjtGeom.mjGEOM_CYLINDER, [size, PILLAR_HALF_HEIGHT, 0.0]),
    }[objects.kind]
    body = spec.worldbody.add_body(name=name, mocap=True, pos=[0.0, 0.0, height(objects)])
    colour = _COLOURS[objects.kind]
    body.add_geom(name=name, type=shape, size=sizes, condim=6, contype=0, conaffinity=_SOLID, rgba=colour)
    if touch_sensor:
        # the sensor adds up the forces of the contacts inside its site: twice the solid's size leaves none out
        extent = 2 * max(sizes)
        body.add_site(name=name, type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[extent] * 3, rgba=[0, 0, 0, 0])
        spec.add_sensor(name=name, type=mujoco.mjtSensor.mjSENS_TOUCH, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=name)


def _add_movable(spec: mujoco.MjSpec, objects: Objects, i: int) -> None:
    name, size = f"{objects.kind}{i}", objects.size
    body = spec.worldbody.add_body(name=name, pos=[0.0, 0.0, height(objects)])
    body.add_freejoint(name=name)
    # the columns at the corners of a push box are what a robot catches hold of
    corners = [(1, 1), (1, -1), (-1, 1), (-1, -1)] if objects.kind == "push_box" else []
    parts = [([0.0, 0.0, 0.0], [size] * 3)]
    parts += [([x * size, y * size, 0.0], [size / 2, size / 2, size]) for x, y in corners]
    for part, (place, sizes) in enumerate(parts):
        body.add_geom(
            name=f"{name}.{part}", type=mujoco.mjtGeom.mjGEOM_BOX, pos=place, size=sizes, density=objects.density,
            condim=6, contype=_SOLID | _FLOOR, conaffinity=_SOLID, rgba=_COLOURS[objects.kind],
        )  # fmt: skip
    if objects.kind == "gremlins":
        weld = spec.add_equality(
            type=mujoco.mjtEq.mjEQ_WELD, objtype=mujoco.mjtObj.mjOBJ_BODY, name1=f"path{i}", name2=name,
            solref=_WELD_SOLREF,
        )  # fmt: skip
        # anchor, relative place and rotation (none), torque scale
        weld.data[:11] = [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, _WELD_TORQUE]


def _add_senses(spec: mujoco.MjSpec, solids: list[Objects]) -> None:
    site, subtree, body = mujoco.mjtObj.mjOBJ_SITE, mujoco.mjtObj.mjOBJ_XBODY, mujoco.mjtObj.mjOBJ_BODY
    spec.add_sensor(type=mujoco.mjtSensor.mjSENS_ACCELEROMETER, objtype=site, objname="robot")
    found = [1 << mujoco.mjtConDataField.mjCONDATA_FOUND.value, 0, 1]
    for objects in solids:
        for i in range(objects.number):
            spec.add_sensor(
                type=mujoco.mjtSensor.mjSENS_CONTACT, objtype=subtree, objname="robot", reftype=body,
                refname=f"{objects.kind}{i}", intprm=found,
            )  # fmt: skip


def _name_pairs(spec: mujoco.MjSpec) -> None:
    """Name every two geoms that may touch, instead of letting MuJoCo search for those that are near.

    They are so few that trying each takes less: the same physics bit for bit in a twelfth less time.
    """
    named = set()
    for b in spec.geoms:
        for a in spec.geoms:
            if not b.contype & a.conaffinity or a.parent.name == b.parent.name or (b.name, a.name) in named:
                continue
            named.add((a.name, b.name))
            sliding, torsion, rolling = np.maximum(a.friction, b.friction)
            spec.add_pair(
                geomname1=a.name, geomname2=b.name, condim=max(a.condim, b.condim),
                friction=[sliding, sliding, torsion, rolling, rolling],
            )  # fmt: skip
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = 0
