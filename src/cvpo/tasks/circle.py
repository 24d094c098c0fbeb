"""The Car-Circle task: run clockwise round a circle that leaves the safe zone."""

import numpy as np

from cvpo.tasks.arena import circle_model
from cvpo.tasks.physics import Physics
from cvpo.tasks.shapes import Disc, Polygon, Shape

RADIUS = 7.0
SAFE_HALF_WIDTH = 6.0
WALL_DISTANCE = 10.0

_START_RING = (2.0, 4.0)
_FULL_LOCK = 0.5
_SUBSTEPS = 5


def wheel_speed(throttle: np.ndarray) -> np.ndarray:
    """The rear wheels' target speed in m/s, for throttle in [-1, 1]; a little brisker near 0."""
    return 2.48 * throttle + 0.1 * np.tanh(10.0 * throttle)


class Circle:
    """N worlds of Car-Circle; when an episode ends is for others to say."""

    extent = 10.5
    follows = side_view = False
    action_range = np.array([[-1.0, -1.0], [1.0, 1.0]])
    observation_size = 8

    def __init__(self, rngs: list[np.random.Generator], threads: int):
        """`rngs` [N] holds each world's generator; the caller may replace them at any time."""
        self._rngs = rngs
        self.physics = Physics(circle_model(WALL_DISTANCE), len(rngs), _SUBSTEPS, threads)
        self.step_seconds = _SUBSTEPS * self.physics.model.opt.timestep

    def begin(self, envs: np.ndarray) -> None:
        """Start an episode in the worlds `envs` [n]: at rest, along the clockwise tangent."""
        self.physics.rest(envs)
        for env in envs:
            inner, outer = _START_RING
            # uniform over the ring's area
            radius = np.sqrt(self._rngs[env].uniform(inner**2, outer**2))
            angle = self._rngs[env].uniform(0.0, 2.0 * np.pi)
            x, y = radius * np.cos(angle), radius * np.sin(angle)
            self.physics.qpos[env, :3] = x, y, np.arctan2(-x, y)

    def advance(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """One step under `actions` [N, 2], clipped to [-1, 1]: rewards, who terminates, and what happened, each [N]."""
        controls, actions = self.physics.controls, np.clip(actions, -1.0, 1.0)
        controls[:, :, 0:2] = wheel_speed(actions[:, 0])[:, None, None]
        controls[:, :, 2:4] = _FULL_LOCK * actions[:, 1, None, None]
        self.physics.step()
        x, y, vx, vy = self._motion()
        reward = 0.1 * (y * vx - x * vy) / (1.0 + np.abs(np.sqrt(x * x + y * y) - RADIUS))
        out = (np.abs(x) > SAFE_HALF_WIDTH).astype(float)
        return reward, np.zeros(len(out), dtype=bool), {"cost": out, "cost_out_of_bounds": out.copy()}

    def observe(self) -> np.ndarray:
        """Observations [N, 8], float32."""
        x, y, vx, vy = self._motion()
        yaw = self.physics.qpos[:, 2].copy()
        radius = np.sqrt(x * x + y * y)
        columns = (
            0.1 * x,
            0.1 * y,
            vx,
            vy,
            np.sin(yaw),
            np.cos(yaw),
            0.1 * self.physics.qvel[:, 2],
            (radius - RADIUS) / 10.0,
        )
        return np.stack(columns, axis=1, dtype=np.float32)

    def pose(self, env: int) -> tuple[float, float, float]:
        """Where the car of world `env` is and which way it drives: x, y, angle."""
        x, y, yaw = self.physics.qpos[env, :3]
        return float(x), float(y), float(yaw)

    def marks(self, env: int) -> list[Shape]:
        """What lies on the floor: the forbidden sides and the circle, within the walls."""
        corners = [np.pi / 8 + i * np.pi / 4 for i in range(8)]
        reach = WALL_DISTANCE / np.cos(np.pi / 8)
        octagon = [(reach * np.cos(angle), reach * np.sin(angle)) for angle in corners]
        side = WALL_DISTANCE * np.tan(np.pi / 8)
        # where the line |x| = 6 meets the octagon's slanted sides
        edge = WALL_DISTANCE + side - SAFE_HALF_WIDTH
        right = [(SAFE_HALF_WIDTH, -edge), (WALL_DISTANCE, -side), (WALL_DISTANCE, side), (SAFE_HALF_WIDTH, edge)]
        left = [(-x, y) for x, y in right]
        return [
            Polygon(octagon, "ground"),
            Polygon(right, "hazard"),
            Polygon(left, "hazard"),
            Disc(0.0, 0.0, RADIUS, "track"),
        ]

    def get_state(self) -> dict[str, np.ndarray]:
        """Everything that `advance` and `observe` depend on, as copies."""
        return {"physics": self.physics.state.copy()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Continue from what `get_state` returned."""
        self.physics.state[:] = state["physics"]

    def _motion(self) -> tuple[np.ndarray, ...]:
        """The planar place and velocity of the cars: x, y, vx, vy, each [N]."""
        qpos, qvel = self.physics.qpos, self.physics.qvel
        return qpos[:, 0], qpos[:, 1], qvel[:, 0], qvel[:, 1]
