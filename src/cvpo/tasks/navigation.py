"""The navigation tasks: a robot among objects, by a task's description."""

from __future__ import annotations

import numpy as np

from cvpo.tasks.arena import height, navigation_model
from cvpo.tasks.bystanders import HOVER, Bystanders
from cvpo.tasks.costs import costs
from cvpo.tasks.description import NavigationTask
from cvpo.tasks.lidar import lidar
from cvpo.tasks.physics import Physics
from cvpo.tasks.placement import FixedPlaces
from cvpo.tasks.rejection import Rejection
from cvpo.tasks.rewards import LIMIT, REWARDS
from cvpo.tasks.robots import ROBOTS
from cvpo.tasks.sensed_physics import ACCELEROMETER, FREE_QPOS, FREE_QVEL, SensedPhysics
from cvpo.tasks.shapes import Disc, Polygon, Shape

# After a press the buttons neither cost nor show for as many steps.
_COOLDOWN = 10
# A picture shows the whole arena, or, of a wider one, so much around the robot.
_WIDE, _NEAR = 5.0, 2.0


class Navigation:
    """N worlds of one navigation task; when an episode's time is over is for others to say.

    Attributes:
      objects: [N, objects, 2] where the objects are now, in the order of the task's description.
      distance: [N, objects] how far they are from the robots' centres, in the plane.
      goal: [N] which button is the goal.
      substeps: MuJoCo's steps in a step.
      steps: [N] since the episode began.
      gremlin_homes: [N, gremlins, 2] what the gremlins circle around.
      cooldown: [N] for how many steps the buttons neither cost nor show.
    """

    substeps = 10

    def __init__(
        self,
        task: NavigationTask,
        layouts: FixedPlaces | Rejection,
        rngs: list[np.random.Generator],
        threads: int,
    ):
        """`rngs` [N] holds each world's generator; the caller may replace them at any time."""
        self.task, self.robot = task, ROBOTS[task.robot]
        self._layouts, self._rngs = layouts, rngs
        num_envs = len(rngs)
        self.envs = np.arange(num_envs)
        self.physics: Physics
        if task.touch == "end":
            self.physics = SensedPhysics(task, num_envs, self.substeps, threads)
        else:
            self.physics = Physics(navigation_model(task), num_envs, self.substeps, threads)
        self.step_seconds = self.substeps * self.physics.model.opt.timestep
        self.action_range = np.array([[-1.0] * self.physics.model.nu, [1.0] * self.physics.model.nu])
        self.observation_size = task.observation_size
        self.follows, self.side_view = task.arena > _WIDE, False
        self.extent = 1.25 * (_NEAR if self.follows else task.arena)

        counts = [objects.number for objects in task.objects]
        self.objects = np.zeros((num_envs, sum(counts), 2))
        self._lidar_of = np.repeat(np.arange(len(counts)), counts)
        self.buttons, self.gremlins = (self.objects[:, task.slice_of(kind)] for kind in ("buttons", "gremlins"))
        goal = task.of("goal")
        self.goal_index, self.goal_size = task.slice_of("goal").start, goal.size if goal else 0.0
        kinds = [objects.kind for objects in task.objects]
        self._button_lidar = kinds.index("buttons") if "buttons" in kinds else None
        self._reward = REWARDS[task.reward]
        self._index_solids()

        self.goal = np.zeros(num_envs, dtype=np.int64)
        self.goals_reached = np.zeros(num_envs, dtype=np.int64)
        self.steps = np.zeros(num_envs, dtype=np.int64)
        self.cooldown = np.zeros(num_envs, dtype=np.int64)
        self.gremlin_homes = np.zeros((num_envs, self.gremlins.shape[1], 2))
        self._turns = np.zeros((num_envs, self.physics.model.nmocap))
        self._acceleration = np.zeros_like(self.physics.qvel)
        self._bystanders = Bystanders(self) if task.touch == "end" else None

    def _index_solids(self) -> None:
        """Where the solids are in MuJoCo's arrays: mocap bodies, contact sensors, and movable bodies in the state."""
        task = self.task
        self.touch_of: dict[str, slice] = {}
        self._mocap_of: dict[str, slice] = {}
        self._movable: dict[str, tuple[slice, slice]] = {}
        robot = self.robot
        mocap = touch = 0
        qpos, qvel = robot.positions, robot.velocities
        for objects in task.objects:
            if objects.solid and not objects.movable:
                self._mocap_of[objects.kind] = slice(mocap, mocap + objects.number)
                self.touch_of[objects.kind] = slice(touch, touch + objects.number)
                mocap, touch = mocap + objects.number, touch + objects.number
        for objects in task.objects:
            if objects.movable:
                if objects.kind == "gremlins":
                    self._mocap_of[objects.kind] = slice(mocap, mocap + objects.number)
                    mocap += objects.number
                self.touch_of[objects.kind] = slice(touch, touch + objects.number)
                touch += objects.number
                ends = qpos + FREE_QPOS * objects.number, qvel + FREE_QVEL * objects.number
                self._movable[objects.kind] = slice(qpos, ends[0]), slice(qvel, ends[1])
                qpos, qvel = ends
        for objects in task.objects:
            if objects.kind in self._mocap_of:
                lift = HOVER if objects.movable else 0.0
                self.physics.mocap[:, :, self._mocap_of[objects.kind], 2] = height(objects) + lift

    def begin(self, envs: np.ndarray) -> None:
        """Start an episode in the worlds `envs` [n]."""
        task, physics = self.task, self.physics
        layouts = [self._layouts.draw(self._rngs[env]) for env in envs.tolist()]
        physics.rest(envs)
        places = np.array([layout.places for layout in layouts])
        angles = np.array([layout.angles for layout in layouts])
        start = np.array([layout.start for layout in layouts])
        pose = physics.qpos[envs]
        self.robot.place(pose, start, np.array([layout.heading for layout in layouts]))
        physics.qpos[envs] = pose
        self.objects[envs] = places
        for objects in task.objects:
            where = task.slice_of(objects.kind)
            if objects.kind == "gremlins":
                self.gremlin_homes[envs] = places[:, where]
            if objects.kind in self._mocap_of:
                self._turns[envs, self._mocap_of[objects.kind]] = angles[:, where]
            if objects.movable:
                free = np.zeros((len(envs), objects.number, FREE_QPOS))
                free[..., :2], free[..., 2] = places[:, where], height(objects)
                free[..., 3:] = _about_z(angles[:, where])
                physics.qpos[envs, self._movable[objects.kind][0]] = free.reshape(len(envs), -1)
        if self.task.reward == "button":
            for env in envs.tolist():
                self.goal[env] = self._layouts.choose(self._rngs[env], self.buttons.shape[1])
        self.goals_reached[envs] = self.steps[envs] = self.cooldown[envs] = 0
        self._acceleration[envs] = 0.0
        self._arrange()
        if self.task.reward in ("goal", "push"):
            self._new_goals(envs)
        self._measure()
        if self._bystanders:
            assert isinstance(physics, SensedPhysics)
            undisturbed = self._bystanders.undisturbed()
            physics.sense(undisturbed, self._bystanders.single(undisturbed), envs)

    def advance(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """One step under `actions` [N, 2], clipped to [-1, 1]: rewards, who terminates, and what happened, each [N]."""
        physics, layouts = self.physics, self._layouts
        physics.controls[:] = np.clip(actions, -1.0, 1.0)[:, None]
        orbit = self._gremlin_places() if self.gremlins.size else None
        if orbit is not None:
            physics.mocap[:, :, self._mocap_of["gremlins"], :2] = orbit[:, :-1]
        if self._bystanders:
            assert isinstance(physics, SensedPhysics)
            undisturbed = self._bystanders.undisturbed()
            single = self._bystanders.single(undisturbed)
            physics.step_all(undisturbed, single)
            self.steps += 1
            self._bystanders.carry(undisturbed, single)
            physics.sense(undisturbed, single)
            touched = physics.sensed[:, ACCELEROMETER:] > 0.0
        else:
            physics.step()
            self.steps += 1
            self._acceleration[:] = physics.acceleration()
            # a touch in any sub-step is a touch in the step
            touched = np.any(physics.sensors > 0.0, axis=1)
        for rng in self._rngs:
            layouts.tick(rng)
        if orbit is not None and "gremlins" not in self._movable:
            self.gremlins[:] = orbit[:, -1]

        before = self._potential
        self._measure()
        reward = before - self._potential
        reached = None
        if self._reward.reached:
            reached = self._reward.reached(self, touched)
            reward = reward + reached
        if self._reward.rate:
            reward = reward + self._reward.rate(self)
        if self._reward.clipped:
            reward = np.clip(reward, -LIMIT, LIMIT)
        infos = costs(self, touched)
        lost = np.zeros(len(reward), dtype=bool)
        if reached is not None:
            self.goals_reached += reached
            self.cooldown = np.where(reached, _COOLDOWN, np.maximum(self.cooldown - 1, 0))
            if reached.any():
                lost = self._next_goals(np.flatnonzero(reached))
                self._measure()
            infos |= {"goal_met": reached, "goals_reached": self.goals_reached.copy()}
        return reward, lost, infos

    def observe(self) -> np.ndarray:
        """Observations [N, D]: what the robot feels, then its lidars; float32."""
        qpos, qvel = self.physics.qpos, self.physics.qvel
        felt = self.robot.feel(qpos, qvel, self._acceleration)
        if isinstance(self.physics, SensedPhysics):
            felt[:, :ACCELEROMETER] = self.physics.sensed[:, :ACCELEROMETER]
        lidars = len(self.task.objects)
        if not lidars:
            return felt.astype(np.float32)
        forward, left, distance = self.robot.look(qpos, self._offset, self.distance)
        readings = lidar(forward, left, distance, self._lidar_of, lidars, self.task.lidar_range)
        if self._button_lidar is not None:
            readings[self.cooldown > 0, self._button_lidar] = 0.0
        return np.concatenate([felt, readings.reshape(len(qpos), -1)], axis=1, dtype=np.float32)

    def pose(self, env: int) -> tuple[float, float, float]:
        """Where the robot of world `env` is and which way it drives: x, y, angle."""
        qpos = self.physics.qpos[env : env + 1]
        cos, sin = self.robot.axes(qpos)
        return float(qpos[0, 0]), float(qpos[0, 1]), float(np.arctan2(sin, cos)[0] + self.robot.forward)

    def marks(self, env: int) -> list[Shape]:
        """What lies on the floor of world `env`."""
        marks: list[Shape] = []
        for objects in self.task.objects:
            places = self.objects[env, self.task.slice_of(objects.kind)]
            look = {"hazards": "hazard", "goal": "goal", "circle": "track"}.get(objects.kind)
            if look:
                marks += [Disc(x, y, objects.size, look) for x, y in places]
        # the goal is drawn last
        marks.sort(key=lambda mark: mark.look == "goal")
        return [*self._wall_marks(), *marks]

    def movable_qpos(self, kind: str) -> np.ndarray:
        """[N, number, 7] places and rotations of the movable bodies of that kind."""
        return self.physics.qpos[:, self._movable[kind][0]].reshape(len(self.envs), -1, FREE_QPOS)

    def movable_qvel(self, kind: str) -> np.ndarray:
        """[N, number, 6] their velocities: linear in the world, angular in the body."""
        return self.physics.qvel[:, self._movable[kind][1]].reshape(len(self.envs), -1, FREE_QVEL)

    def set_movable(self, kind: str, envs: np.ndarray, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Put movable bodies into the places [n, number, 7] and velocities [n, number, 6]."""
        places, velocities = self._movable[kind]
        self.physics.qpos[envs, places] = qpos.reshape(len(envs), -1)
        self.physics.qvel[envs, velocities] = qvel.reshape(len(envs), -1)

    def get_state(self) -> dict[str, np.ndarray]:
        """Everything that `advance` and `observe` depend on, as copies."""
        return {name: array.copy() for name, array in self._state().items()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Continue from what `get_state` returned."""
        for name, array in self._state().items():
            array[:] = state[name]
        self._arrange()
        self._measure()

    def _state(self) -> dict[str, np.ndarray]:
        state = {
            "physics": self.physics.state,
            "objects": self.objects,
            "gremlin_homes": self.gremlin_homes,
            "goal": self.goal,
            "goals_reached": self.goals_reached,
            "steps": self.steps,
            "cooldown": self.cooldown,
        }
        if not isinstance(self.physics, SensedPhysics):
            return state | {"acceleration": self._acceleration}
        return state | {"turns": self._turns, "sensed": self.physics.sensed}

    def _next_goals(self, envs: np.ndarray) -> np.ndarray:
        """New goals in the worlds `envs`; [N] where none was found."""
        if self.task.reward == "button":
            for env in envs.tolist():
                self.goal[env] = self._layouts.choose(self._rngs[env], self.buttons.shape[1])
            return np.zeros(len(self.envs), dtype=bool)
        return self._new_goals(envs)

    def _new_goals(self, envs: np.ndarray) -> np.ndarray:
        """Goals at new places."""
        assert isinstance(self._layouts, Rejection)
        lost = np.zeros(len(self.envs), dtype=bool)
        for env in envs.tolist():
            robot = self.physics.qpos[env, :2]
            place = self._layouts.draw_goal(self._rngs[env], robot, self.objects[env])
            if place is None:
                lost[env] = True
            else:
                self.objects[env, self.goal_index] = place
        return lost

    def _arrange(self) -> None:
        """Put the solids where this moment has them."""
        mocap = self.physics.mocap
        for objects in self.task.objects:
            if objects.kind not in self._mocap_of:
                continue
            bodies = self._mocap_of[objects.kind]
            if objects.kind == "gremlins":
                now = self._gremlin_places()[:, 0]
                if objects.rigid:
                    self.gremlins[:] = now
                mocap[:, :, bodies, :2] = now[:, None]
            else:
                mocap[:, :, bodies, :2] = self.objects[:, None, self.task.slice_of(objects.kind)]
        turns = _about_z(self._turns)
        self.physics.mocap_turn[:] = turns[:, None]
        if "gremlins" in self._mocap_of:
            self.gremlin_turns = turns[:, self._mocap_of["gremlins"]]
        self._measure()
        if self._bystanders:
            self._bystanders.arrange()

    def _measure(self) -> None:
        """Offsets [N, objects, 2] and distances [N, objects] from the robots to the objects, as they are now."""
        for kind in self._movable:
            self.objects[:, self.task.slice_of(kind)] = self.movable_qpos(kind)[..., :2]
        if self.task.reward == "button":
            self.objects[:, self.goal_index] = self.buttons[self.envs, self.goal]
        self._offset = self.objects - self.physics.qpos[:, None, :2]
        self.distance = np.sqrt(self._offset[..., 0] ** 2 + self._offset[..., 1] ** 2)
        potential = self._reward.potential
        self._potential = potential(self) if potential else np.zeros(len(self.envs))

    def _gremlin_places(self) -> np.ndarray:
        """[N, sub-steps + 1, gremlins, 2] during the next step and at its end; each circles its home."""
        gremlins = self.task.of("gremlins")
        assert gremlins is not None
        time = (self.steps[:, None] * self.substeps + np.arange(self.substeps + 1)) * self.physics.model.opt.timestep
        places = np.empty((*time.shape, self.gremlins.shape[1], 2))
        np.add(self.gremlin_homes[:, None, :, 0], gremlins.orbit * np.sin(time)[..., None], out=places[..., 0])
        np.add(self.gremlin_homes[:, None, :, 1], gremlins.orbit * np.cos(time)[..., None], out=places[..., 1])
        return places

    def _wall_marks(self) -> list[Shape]:
        """The sides beyond the walls, as far as the picture shows."""
        walls = self.task.walls
        far = 2.0 * max(2.0 * self.extent, walls.length)
        marks: list[Shape] = []
        for x, y in walls.places():
            corners = [(x, -far), (x, far), (np.sign(x) * far, far), (np.sign(x) * far, -far)]
            if y:
                corners = [(-far, y), (far, y), (far, np.sign(y) * far), (-far, np.sign(y) * far)]
            marks.append(Polygon(corners, "hazard"))
        return marks


def _about_z(angle: np.ndarray) -> np.ndarray:
    """[..., 4] quaternions of rotations about the vertical."""
    quaternion = np.zeros((*angle.shape, 4))
    quaternion[..., 0], quaternion[..., 3] = np.cos(angle / 2), np.sin(angle / 2)
    return quaternion
