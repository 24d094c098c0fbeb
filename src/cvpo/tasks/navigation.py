"""The Goal and Button tasks: press the marked button, shun hazards, other buttons and gremlins."""

import numpy as np

from cvpo.tasks import placement
from cvpo.tasks.arena import navigation_model
from cvpo.tasks.lidar import lidar
from cvpo.tasks.physics import Physics
from cvpo.tasks.placement import BUTTON_RADIUS, GREMLIN_HALF_SIZE, GREMLIN_ORBIT, Layout
from cvpo.tasks.robots import Robot
from cvpo.tasks.shapes import Disc, Shape

_SUBSTEPS = 10
# After a press the buttons neither cost nor show for as many steps.
_COOLDOWN = 10
# The lidars' order: goal, hazards, buttons, gremlins.
_BUTTON_LIDAR = 2


class Navigation:
    """N worlds of one Goal or Button task; when an episode ends is for others to say."""

    extent = 2.5

    def __init__(
        self,
        robot: Robot,
        layout: Layout,
        rngs: list[np.random.Generator],
        threads: int,
        *,
        random_start: bool,
        random_layout: bool,
    ):
        """`rngs` [N] holds each world's generator; the caller may replace them at any time."""
        self.robot = robot
        self.layout = layout
        self._rngs = rngs
        self._random_start, self._random_layout = random_start, random_layout
        num_envs = len(rngs)
        self.physics = Physics(navigation_model(robot, layout), num_envs, _SUBSTEPS, threads)
        self.step_seconds = _SUBSTEPS * self.physics.model.opt.timestep

        hazards, buttons, gremlins = len(layout.hazards), len(layout.buttons), len(layout.gremlins)
        # The objects as the lidars see them: the goal, hazards, buttons, gremlins (where they are now).
        self._objects = np.empty((num_envs, 1 + hazards + buttons + gremlins, 2))
        self.hazards = self._objects[:, 1 : 1 + hazards]
        self.buttons = self._objects[:, 1 + hazards : 1 + hazards + buttons]
        self.gremlins = self._objects[:, 1 + hazards + buttons :]
        self._lidar_of = np.repeat(np.arange(4), [1, hazards, buttons, gremlins])
        self._lidars = 4 if gremlins else 3
        self._envs = np.arange(num_envs)

        self.goal = np.zeros(num_envs, dtype=np.int64)
        self.goals_reached = np.zeros(num_envs, dtype=np.int64)
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self._cooldown = np.zeros(num_envs, dtype=np.int64)
        self._gremlin_homes = np.zeros((num_envs, gremlins, 2))
        self._acceleration = np.zeros_like(self.physics.qvel)
        self.physics.mocap[:, :, :buttons, 2] = BUTTON_RADIUS
        self.physics.mocap[:, :, buttons:, 2] = GREMLIN_HALF_SIZE

    def begin(self, envs: np.ndarray) -> None:
        """Start an episode in the worlds `envs` [n]."""
        start, heading = np.empty((len(envs), 2)), np.empty(len(envs))
        for row, env in enumerate(envs):
            rng, layout = self._rngs[env], self.layout
            if self._random_start or self._random_layout:
                layout = placement.draw(
                    layout,
                    self.robot.reach,
                    rng,
                    move_start=self._random_start,
                    move_objects=self._random_layout,
                )
            start[row], heading[row] = layout.start, rng.uniform(0.0, 2.0 * np.pi)
            self.goal[env] = rng.integers(len(layout.buttons))
            self.hazards[env], self.buttons[env] = layout.hazards, layout.buttons
            self._gremlin_homes[env] = layout.gremlins
        self.physics.rest(envs)
        pose = self.physics.qpos[envs]
        self.robot.place(pose, start, heading)
        self.physics.qpos[envs] = pose
        self.goals_reached[envs] = self._steps[envs] = self._cooldown[envs] = 0
        self._acceleration[envs] = 0.0
        self._arrange()

    def advance(self, actions: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """One control step under `actions` [N, 2] within [-1, 1]: rewards [N] and what happened, each [N]."""
        physics, button_count = self.physics, self.buttons.shape[1]
        physics.controls[:] = actions[:, None]
        if self.gremlins.size:
            orbit = self._gremlin_places()
            physics.mocap[:, :, button_count:, :2] = orbit[:, :-1]
            self.gremlins[:] = orbit[:, -1]
        physics.step()
        self._steps += 1
        self._acceleration[:] = physics.acceleration()
        # a touch in any sub-step is a touch in the step
        touched = np.any(physics.sensors > 0.0, axis=1)

        distance_before = self._distance[:, 0]
        self._measure()
        buttons = touched[:, :button_count]
        goal_met = buttons[self._envs, self.goal]
        reward = distance_before - self._distance[:, 0] + goal_met

        wrong_button = (buttons.sum(axis=1) > goal_met) & (self._cooldown == 0)
        in_hazard = (self._distance[:, 1 : 1 + self.hazards.shape[1]] <= self.layout.hazard_radius).any(axis=1)
        cost = in_hazard | wrong_button
        events = {"cost_hazard": in_hazard.astype(float), "cost_button": wrong_button.astype(float)}
        if self.gremlins.size:
            gremlin = touched[:, button_count:].any(axis=1)
            cost |= gremlin
            events["cost_gremlin"] = gremlin.astype(float)

        self.goals_reached += goal_met
        self._cooldown = np.where(goal_met, _COOLDOWN, np.maximum(self._cooldown - 1, 0))
        if goal_met.any():
            for env in np.flatnonzero(goal_met):
                self.goal[env] = self._rngs[env].integers(button_count)
            self._measure()
        events |= {
            "cost": cost.astype(float),
            "goal_met": goal_met,
            "goals_reached": self.goals_reached.copy(),
        }
        return reward, events

    def observe(self) -> np.ndarray:
        """Observations [N, D]: what the robot feels, then its lidars; float32."""
        qpos, qvel = self.physics.qpos, self.physics.qvel
        cos, sin = self.robot.axes(qpos)
        dx, dy = self._offset[..., 0], self._offset[..., 1]
        forward = cos[:, None] * dx + sin[:, None] * dy
        left = cos[:, None] * dy - sin[:, None] * dx
        readings = lidar(forward, left, self._distance, self._lidar_of, self._lidars)
        readings[self._cooldown > 0, _BUTTON_LIDAR] = 0.0
        felt = self.robot.feel(qpos, qvel, self._acceleration)
        return np.concatenate([felt, readings.reshape(len(qpos), -1)], axis=1, dtype=np.float32)

    def pose(self, env: int) -> tuple[float, float, float]:
        """Where the robot of world `env` is and which way it drives: x, y, angle."""
        qpos = self.physics.qpos[env : env + 1]
        cos, sin = self.robot.axes(qpos)
        return float(qpos[0, 0]), float(qpos[0, 1]), float(np.arctan2(sin, cos)[0] + self.robot.forward)

    def marks(self, env: int) -> list[Shape]:
        """What lies on the floor of world `env`: the hazards, and a ring around the goal."""
        x, y = self.buttons[env, self.goal[env]]
        hazards = [Disc(x, y, self.layout.hazard_radius, "hazard") for x, y in self.hazards[env]]
        return [*hazards, Disc(x, y, 2.0 * BUTTON_RADIUS, "goal")]

    def get_state(self) -> dict[str, np.ndarray]:
        """Everything that `advance` and `observe` depend on, as copies."""
        return {name: array.copy() for name, array in self._state().items()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Continue from what `get_state` returned."""
        for name, array in self._state().items():
            array[:] = state[name]
        self._arrange()

    def _state(self) -> dict[str, np.ndarray]:
        return {
            "physics": self.physics.state,
            "objects": self._objects,
            "gremlin_homes": self._gremlin_homes,
            "goal": self.goal,
            "goals_reached": self.goals_reached,
            "steps": self._steps,
            "cooldown": self._cooldown,
            "acceleration": self._acceleration,
        }

    def _arrange(self) -> None:
        """Put the solids where this moment has them."""
        button_count = self.buttons.shape[1]
        self.gremlins[:] = self._gremlin_places()[:, 0]
        self.physics.mocap[:, :, :button_count, :2] = self.buttons[:, None]
        self.physics.mocap[:, :, button_count:, :2] = self.gremlins[:, None]
        self._measure()

    def _measure(self) -> None:
        """Offsets [N, objects, 2] and distances [N, objects] from the robots to the objects, as they are now."""
        self._objects[:, 0] = self.buttons[self._envs, self.goal]
        self._offset = self._objects - self.physics.qpos[:, None, :2]
        self._distance = np.sqrt(self._offset[..., 0] ** 2 + self._offset[..., 1] ** 2)

    def _gremlin_places(self) -> np.ndarray:
        """[N, sub-steps + 1, gremlins, 2] during the next step and at its end; each circles its home."""
        time = (self._steps[:, None] * _SUBSTEPS + np.arange(_SUBSTEPS + 1)) * self.physics.model.opt.timestep
        places = np.empty((*time.shape, self.gremlins.shape[1], 2))
        np.add(self._gremlin_homes[:, None, :, 0], GREMLIN_ORBIT * np.sin(time)[..., None], out=places[..., 0])
        np.add(self._gremlin_homes[:, None, :, 1], GREMLIN_ORBIT * np.cos(time)[..., None], out=places[..., 1])
        return places
