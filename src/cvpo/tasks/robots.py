"""The robots of the navigation tasks: how they are placed, and what they feel."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_GRAVITY = 9.81
# MuJoCo's default magnetic field is (0, -0.5, 0).
_MAGNETIC_FIELD_Y = -0.5


@dataclass(frozen=True)
class Robot:
    """A robot on the plane; N copies of it are read and placed at once.

    Attributes:
      model: name of its MJCF file.
      on_floor: whether it rests on the floor by contact.
      reach: radius around its centre that no part of it leaves, in metres.
      positions, velocities: how many entries of qpos and qvel it has.
      senses: how many numbers it feels.
      forward: which way it drives at heading 0, in radians.
      place: (qpos [n, nq], position [n, 2], heading [n]) -> None, writes the pose.
      axes: (qpos [N, nq]) -> cos, sin [N] of its x axis on the plane, up to a common factor.
      feel: (qpos [N, nq], qvel [N, nv], acceleration [N, nv]) -> [N, ...]: accelerometer, velocimeter, gyro,
        magnetometer, then what the robot has of its own.
      look: (qpos [N, nq], offset [N, objects, 2], distance [N, objects]) -> forward, left, distance of each object, as
        the robot's lidars see it.
      height: (qpos [N, nq]) -> the height of its centre, [N] or one for all.
    """

    model: str
    on_floor: bool
    reach: float
    positions: int
    velocities: int
    senses: int
    forward: float
    place: Callable[[np.ndarray, np.ndarray, np.ndarray], None]
    axes: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    feel: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    look: Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
    height: Callable[[np.ndarray], np.ndarray | float]


def rotation_matrix(quaternion: np.ndarray) -> np.ndarray:
    """[N, 9] row-major rotation matrices of the unit quaternions [N, 4], as w, x, y, z."""
    w, x, y, z = quaternion.T
    matrix = np.empty((len(quaternion), 9))
    matrix[:, 0] = 1 - 2 * (y * y + z * z)
    matrix[:, 1] = 2 * (x * y - w * z)
    matrix[:, 2] = 2 * (x * z + w * y)
    matrix[:, 3] = 2 * (x * y + w * z)
    matrix[:, 4] = 1 - 2 * (x * x + z * z)
    matrix[:, 5] = 2 * (y * z - w * x)
    matrix[:, 6] = 2 * (x * z - w * y)
    matrix[:, 7] = 2 * (y * z + w * x)
    matrix[:, 8] = 1 - 2 * (x * x + y * y)
    return matrix


def _place_point(qpos: np.ndarray, position: np.ndarray, heading: np.ndarray) -> None:
    qpos[:, :2] = position
    qpos[:, 2] = heading


def _point_axes(qpos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    yaw = qpos[:, 2].copy()
    return np.cos(yaw), np.sin(yaw)


def _feel_point(qpos: np.ndarray, qvel: np.ndarray, qacc: np.ndarray) -> np.ndarray:
    cos, sin = _point_axes(qpos)
    felt = np.zeros((len(qpos), 12))
    felt[:, 0] = cos * qacc[:, 0] + sin * qacc[:, 1]
    felt[:, 1] = cos * qacc[:, 1] - sin * qacc[:, 0]
    felt[:, 2] = _GRAVITY
    felt[:, 3] = cos * qvel[:, 0] + sin * qvel[:, 1]
    felt[:, 4] = cos * qvel[:, 1] - sin * qvel[:, 0]
    felt[:, 8] = qvel[:, 2]
    felt[:, 9] = _MAGNETIC_FIELD_Y * sin
    felt[:, 10] = _MAGNETIC_FIELD_Y * cos
    return felt


# The car's joints: root (7 positions, 6 velocities), left wheel, right wheel, rear ball (4, 3).
_ROOT_QUATERNION, _BALL_QUATERNION, _BALL_VELOCITY = slice(3, 7), slice(9, 13), slice(8, 11)


def _place_car(qpos: np.ndarray, position: np.ndarray, heading: np.ndarray) -> None:
    qpos[:, :2] = position
    qpos[:, 3] = np.cos(heading / 2)
    qpos[:, 4:6] = 0.0
    qpos[:, 6] = np.sin(heading / 2)


def _car_axes(qpos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    w, x, y, z = qpos[:, _ROOT_QUATERNION].T
    return 1 - 2 * (y * y + z * z), 2 * (x * y + w * z)


def _feel_car(qpos: np.ndarray, qvel: np.ndarray, qacc: np.ndarray) -> np.ndarray:
    both = np.concatenate([qpos[:, _ROOT_QUATERNION], qpos[:, _BALL_QUATERNION]])
    matrices = rotation_matrix(both)
    matrix, ball = matrices[: len(qpos)], matrices[len(qpos) :]
    felt = np.empty((len(qpos), 24))
    # the matrix's columns are the robot's axes in the world: x, y and z parts of a vector times the matrix's rows
    x, y, z = matrix[:, 0:3], matrix[:, 3:6], matrix[:, 6:9]
    felt[:, 0:3] = x * qacc[:, 0:1] + y * qacc[:, 1:2] + z * (qacc[:, 2:3] + _GRAVITY)
    felt[:, 3:6] = x * qvel[:, 0:1] + y * qvel[:, 1:2] + z * qvel[:, 2:3]
    felt[:, 6:9] = qvel[:, 3:6]
    felt[:, 9:12] = _MAGNETIC_FIELD_Y * y
    felt[:, 12:15] = qvel[:, _BALL_VELOCITY]
    felt[:, 15:24] = ball
    return felt


def _look_along(axes: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]):
    """Seen from a robot that stands upright."""

    def look(qpos: np.ndarray, offset: np.ndarray, distance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        cos, sin = axes(qpos)
        dx, dy = offset[..., 0], offset[..., 1]
        return cos[:, None] * dx + sin[:, None] * dy, cos[:, None] * dy - sin[:, None] * dx, distance

    return look


def _look_tilted(qpos: np.ndarray, offset: np.ndarray, _: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seen from the car as it stands: what lies on the floor, in the plane of its chassis."""
    matrix = rotation_matrix(qpos[:, _ROOT_QUATERNION])[..., None]
    dx, dy, dz = offset[..., 0], offset[..., 1], -qpos[:, 2:3]
    forward = matrix[:, 0] * dx + matrix[:, 3] * dy + matrix[:, 6] * dz
    left = matrix[:, 1] * dx + matrix[:, 4] * dy + matrix[:, 7] * dz
    return forward, left, np.sqrt(forward * forward + left * left)


def _point_height(qpos: np.ndarray) -> float:
    return 0.1


def _car_height(qpos: np.ndarray) -> np.ndarray:
    return qpos[:, 2]


_POINT = (_place_point, _point_axes, _feel_point, _look_along(_point_axes), _point_height)
_FLAT_CAR = (_place_car, _car_axes, _feel_car, _look_along(_car_axes), _car_height)
_CAR = (_place_car, _car_axes, _feel_car, _look_tilted, _car_height)

ROBOTS: dict[str, Robot] = {
    "Point": Robot("safety_point.xml", False, 0.17, 3, 3, 12, 0.0, *_POINT),
    "Car": Robot("safety_car.xml", True, 0.24, 13, 11, 24, -np.pi / 2, *_CAR),
    "PaperPoint": Robot("point.xml", False, 0.17, 3, 3, 12, 0.0, *_POINT),
    "PaperCar": Robot("car.xml", True, 0.22, 13, 11, 24, np.pi / 2, *_FLAT_CAR),
}
