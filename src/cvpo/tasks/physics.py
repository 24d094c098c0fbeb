"""The physics of N copies of one model, stepped together by one call into MuJoCo."""

import mujoco
import numpy as np
from mujoco.rollout import Rollout

from cvpo.errors import BadValue

_CONTROL = (
    mujoco.mjtState.mjSTATE_CTRL.value
    | mujoco.mjtState.mjSTATE_MOCAP_POS.value
    | mujoco.mjtState.mjSTATE_MOCAP_QUAT.value
)
_PHYSICS = mujoco.mjtState.mjSTATE_FULLPHYSICS.value


class Physics:
    """N independent simulations of `model`.

    The constraint solver starts cold, so that a simulation's future depends on its state alone: not on the thread that
    runs it, nor on the simulations beside it.

    Attributes:
      qpos, qvel: [N, nq], [N, nv] views of the current state; write to them to place the robots.
      controls: [N, substeps, nu] the actuators' inputs of the next step.
      mocap: [N, substeps, bodies, 3] the positions of the moving and of the placed solids in the next step.
      mocap_turn: [N, substeps, bodies, 4] their rotations, as quaternions.
      sensors: [N, substeps, nsensordata] what the sensors read at the beginning of each sub-step of the last step.
    """

    def __init__(self, model: mujoco.MjModel, num_envs: int, substeps: int, threads: int = 1):
        if threads < 1:
            raise BadValue(f"threads must be at least 1, got {threads}")
        self.model = model
        self._pool = Rollout(nthread=threads if threads > 1 else 0)
        self._threads = threads
        self._stepper = self.stepper(model)

        self._rest = np.empty(mujoco.mj_stateSize(model, _PHYSICS))
        mujoco.mj_getState(model, mujoco.MjData(model), self._rest, _PHYSICS)
        self.state = np.tile(self._rest, (num_envs, 1))
        self.qpos = self.state[:, 1 : 1 + model.nq]
        self.qvel = self.state[:, 1 + model.nq : 1 + model.nq + model.nv]

        self.inputs = np.zeros((num_envs, substeps, mujoco.mj_stateSize(model, _CONTROL)))
        controls, places = model.nu, model.nu + 3 * model.nmocap
        self.controls = self.inputs[..., :controls]
        self.mocap = self.inputs[..., controls:places].reshape(num_envs, substeps, -1, 3)
        self.mocap_turn = self.inputs[..., places:].reshape(num_envs, substeps, -1, 4)
        self.mocap_turn[..., 0] = 1.0
        self._states = np.empty((num_envs, substeps, len(self._rest)))
        self.sensors = np.empty((num_envs, substeps, model.nsensordata))

    def stepper(self, model: mujoco.MjModel) -> "Stepper":
        """What steps simulations of `model` with these threads."""
        return Stepper(model, self._pool, self._threads)

    def step(self) -> None:
        """Advance every simulation by all its sub-steps."""
        self._stepper.run(self.state, self.inputs, self._states, self.sensors)
        self.state[:] = self._states[:, -1]

    def rest(self, envs: np.ndarray) -> None:
        """Put the simulations `envs` into the model's initial state, at time 0 and at rest."""
        self.state[envs] = self._rest
        self.controls[envs] = 0.0

    def acceleration(self) -> np.ndarray:
        """[N, nv] the mean acceleration over the last sub-step of the last step."""
        velocity = self._states[:, -2:, 1 + self.model.nq : 1 + self.model.nq + self.model.nv]
        return (velocity[:, 1] - velocity[:, 0]) / self.model.opt.timestep

    def load(self, env: int, data: mujoco.MjData) -> None:
        """Put the state and the last inputs of the simulation `env` into MuJoCo's own data."""
        mujoco.mj_setState(self.model, data, self.state[env], _PHYSICS)
        mujoco.mj_setState(self.model, data, self.inputs[env, -1], _CONTROL)

    def snapshot(self, env: int) -> mujoco.MjData:
        """The simulation `env` as MuJoCo's own data, its shapes in place: for looking at, not for stepping."""
        data = mujoco.MjData(self.model)
        self.load(env, data)
        mujoco.mj_kinematics(self.model, data)
        return data

    def close(self) -> None:
        """Stop the threads."""
        self._pool.close()


class Stepper:
    """Steps any number of simulations of one model by one call."""

    def __init__(self, model: mujoco.MjModel, pool: Rollout, threads: int):
        self.model = model
        self._pool, self._threads = pool, threads
        self._data = [mujoco.MjData(model) for _ in range(threads)]
        self._models: list[mujoco.MjModel] = []

    def run(self, state: np.ndarray, inputs: np.ndarray, states: np.ndarray, sensors: np.ndarray) -> None:
        """From `state` [n, size] under `inputs` [n, steps, ...]: `states` and `sensors` [n, steps, ...] are written."""
        count = len(state)
        if len(self._models) != count:
            self._models = [self.model] * count
        self._pool.rollout(
            self._models,
            self._data,
            state,
            inputs,
            control_spec=_CONTROL,
            skip_checks=True,
            # Small pieces keep the threads busy to the end, but handing one over costs as much as a few simulations.
            chunk_size=max(5, count // (10 * self._threads)),
            nstep=inputs.shape[1],
            state=states,
            sensordata=sensors,
        )
