"""The physics of a navigation task whose sensors are read at the end of a step, as Safety Gym does."""

import numpy as np

from cvpo.tasks.arena import navigation_model
from cvpo.tasks.description import NavigationTask
from cvpo.tasks.physics import Physics, Stepper

ACCELEROMETER = 3


class SensedPhysics(Physics):
    """N simulations that are looked at once more after their last sub-step, with the same controls.

    Movable bodies that nothing disturbs need no simulation: `step_all` and `sense` are told in which simulations that
    is so, and take a model there that has the robot and the solids that stay, and nothing else.

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
        qpos, qvel = 1 + np.arange(short.nq), 1 + self.model.nq + np.arange(short.nv)
        self._columns = np.concatenate([[0], qpos, qvel])
        self._everyone = np.arange(num_envs)

    def step_all(self, undisturbed: np.ndarray) -> None:
        """Advance every simulation by all its sub-steps; movable bodies stay as they are where `undisturbed` [N]."""
        if not undisturbed.any():
            self.step()
            return
        envs = np.flatnonzero(undisturbed)
        everyone = len(envs) == len(undisturbed)
        states, _ = _run(self._short, self._alone(envs), self.inputs if everyone else self.inputs[envs])
        self.state[envs[:, None], self._columns] = states[:, -1]
        if not everyone:
            envs = np.flatnonzero(~undisturbed)
            states, _ = _run(self._stepper, self.state[envs], self.inputs[envs])
            self.state[envs] = states[:, -1]

    def sense(self, undisturbed: np.ndarray, envs: np.ndarray | None = None) -> None:
        """Read the sensors of `envs` [n], or of all."""
        envs = self._everyone if envs is None else envs
        short = undisturbed[envs]
        if short.any():
            some = envs[short]
            _, sensors = _run(self._short_sensing, self._alone(some), self.inputs[some, -1:])
            # contacts with the solids that stay come first, and there are no others
            seen = sensors.shape[-1]
            self.sensed[some, :seen] = sensors[:, 0]
            self.sensed[some, seen:] = 0.0
        if not short.all():
            some = envs[~short]
            _, sensors = _run(self._sensing, self.state[some], self.inputs[some, -1:])
            self.sensed[some] = sensors[:, 0]

    def _alone(self, envs: np.ndarray) -> np.ndarray:
        """[n, ...] the states of the robots without the movable bodies."""
        if len(self._columns) == self.state.shape[1]:
            return self.state[envs]
        return self.state[envs[:, None], self._columns]


def _run(stepper: Stepper, state: np.ndarray, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    count, steps = inputs.shape[:2]
    states = np.empty((count, steps, state.shape[1]))
    sensors = np.empty((count, steps, stepper.model.nsensordata))
    stepper.run(state, inputs, states, sensors)
    return states, sensors
