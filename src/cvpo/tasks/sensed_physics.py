"""The physics of a navigation task whose sensors are read at the end of a step, as Safety Gym does."""

from dataclasses import replace

import numpy as np

from cvpo.tasks.arena import navigation_model
from cvpo.tasks.description import NavigationTask
from cvpo.tasks.physics import Physics, Stepper

ACCELEROMETER = 3
# of a body that moves freely
FREE_QPOS, FREE_QVEL = 7, 6


class SensedPhysics(Physics):
    """N simulations that are looked at once more after their last sub-step, with the same controls.

    Movable bodies that nothing disturbs need no simulation: `step_all` and `sense` are told in which simulations that
    is so of all, or of all but one, and take a smaller model there: the robot, the solids that stay, and that one.

    Attributes:
      sensed: [N, 3 + solids] the accelerometer, then the number of the robot's contacts with each solid.
    """

    def __init__(self, task: NavigationTask, num_envs: int, substeps: int, threads: int):
        super().__init__(navigation_model(task), num_envs, substeps, threads)
        self._sensing = self.stepper(navigation_model(task, sensing=True))
        self._short = self.stepper(navigation_model(task, movable=False))
        self._short_sensing = self.stepper(navigation_model(task, movable=False, sensing=True))
        self.sensed = np.zeros((num_envs, self._sensing.model.nsensordata))
        # where the state of the robot alone is in the state of all
        short = self._short.model
        self._robot_qpos, self._robot_qvel = 1 + np.arange(short.nq), 1 + self.model.nq + np.arange(short.nv)
        self._columns = np.concatenate([[0], self._robot_qpos, self._robot_qvel])
        self._everyone = np.arange(num_envs)
        if task.alike_movable > 1:
            self._prepare_single(task)

    def _prepare_single(self, task: NavigationTask) -> None:
        """Models with one movable body, and where its numbers are among those of all [bodies, ...]."""
        objects = tuple(replace(kind, number=1) if kind.movable else kind for kind in task.objects)
        one = replace(task, objects=objects)
        self._single = self.stepper(navigation_model(one))
        self._single_sensing = self.stepper(navigation_model(one, sensing=True))
        bodies = np.arange(task.alike_movable)[:, None]
        whole, part = self.model, self._single.model
        qpos = self._robot_qpos[-1] + 1 + FREE_QPOS * bodies + np.arange(FREE_QPOS)
        qvel = self._robot_qvel[-1] + 1 + FREE_QVEL * bodies + np.arange(FREE_QVEL)

        def beside(fixed: np.ndarray, own: np.ndarray) -> np.ndarray:
            return np.concatenate([np.tile(fixed, (len(bodies), 1)), own], axis=1)

        robot = np.concatenate([[0], self._robot_qpos])
        self._single_columns = np.concatenate([beside(robot, qpos), beside(self._robot_qvel, qvel)], axis=1)
        # the inputs: controls, then places and then rotations of mocap bodies, of which gremlins' paths are the last
        still = part.nmocap - 1
        self._own_path = part.nmocap < whole.nmocap

        def mocap(first: int, size: int) -> np.ndarray:
            return beside(first + np.arange(size * still), first + size * (still + bodies) + np.arange(size))

        if self._own_path:
            controls = np.tile(np.arange(whole.nu), (len(bodies), 1))
            places, turns = mocap(whole.nu, 3), mocap(whole.nu + 3 * whole.nmocap, 4)
            self._single_inputs = np.concatenate([controls, places, turns], axis=1)

    def step_all(self, undisturbed: np.ndarray, single: np.ndarray) -> None:
        """Advance every simulation by all its sub-steps.

        Movable bodies stay as they are where `undisturbed` [N]; all but one do where `single` [N] names it.
        """
        one = single >= 0
        whole = ~(undisturbed | one)
        if whole.all():
            self.step()
            return
        if undisturbed.any():
            envs = np.flatnonzero(undisturbed)
            everyone = len(envs) == len(undisturbed)
            states, _ = _run(self._short, self._alone(envs), self.inputs if everyone else self.inputs[envs])
            self.state[envs[:, None], self._columns] = states[:, -1]
        if one.any():
            envs = np.flatnonzero(one)
            columns, inputs = self._of_single(envs, single)
            states, _ = _run(self._single, self.state[columns], inputs)
            self.state[columns] = states[:, -1]
        if whole.any():
            envs = np.flatnonzero(whole)
            states, _ = _run(self._stepper, self.state[envs], self.inputs[envs])
            self.state[envs] = states[:, -1]

    def sense(self, undisturbed: np.ndarray, single: np.ndarray, envs: np.ndarray | None = None) -> None:
        """Read the sensors of `envs` [n], or of all."""
        envs = self._everyone if envs is None else envs
        short, one = undisturbed[envs], single[envs] >= 0
        # contacts with the solids that stay come first in all models; with bodies that are left out there are none
        if short.any():
            some = envs[short]
            _, sensors = _run(self._short_sensing, self._alone(some), self.inputs[some, -1:])
            self._write(some, sensors[:, 0])
        if one.any():
            some = envs[one]
            columns, inputs = self._of_single(some, single)
            _, sensors = _run(self._single_sensing, self.state[columns], inputs[:, -1:])
            self._write(some, sensors[:, 0, :-1])
            first = self._short_sensing.model.nsensordata
            self.sensed[some, first + single[some]] = sensors[:, 0, -1]
        if not (short | one).all():
            some = envs[~(short | one)]
            _, sensors = _run(self._sensing, self.state[some], self.inputs[some, -1:])
            self.sensed[some] = sensors[:, 0]

    def _write(self, envs: np.ndarray, sensors: np.ndarray) -> None:
        seen = sensors.shape[-1]
        self.sensed[envs, :seen] = sensors
        self.sensed[envs, seen:] = 0.0

    def _alone(self, envs: np.ndarray) -> np.ndarray:
        """[n, ...] the states of the robots without the movable bodies."""
        if len(self._columns) == self.state.shape[1]:
            return self.state[envs]
        return self.state[envs[:, None], self._columns]

    def _of_single(self, envs: np.ndarray, single: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
        """Where the states of robot and one body are, and its inputs [n, sub-steps, ...]."""
        body = single[envs]
        columns = envs[:, None], self._single_columns[body]
        inputs = self.inputs[envs]
        if self._own_path:
            inputs = np.take_along_axis(inputs, self._single_inputs[body][:, None], axis=2)
        return columns, inputs


def _run(stepper: Stepper, state: np.ndarray, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    count, steps = inputs.shape[:2]
    states = np.empty((count, steps, state.shape[1]))
    sensors = np.empty((count, steps, stepper.model.nsensordata))
    stepper.run(state, inputs, states, sensors)
    return states, sensors
