"""The physics of N copies of one model, stepped together by one call into MuJoCo."""

import mujoco
import numpy as np
from mujoco.rollout import Rollout

_CONTROL = mujoco.mjtState.mjSTATE_CTRL.value | mujoco.mjtState.mjSTATE_MOCAP_POS.value
_PHYSICS = mujoco.mjtState.mjSTATE_FULLPHYSICS.value


class Physics:
    """N independent simulations of `model`.

    The constraint solver starts cold, so that a simulation's future depends on its state alone: not on the thread that
    runs it, nor on the simulations beside it.

    Attributes:
      qpos, qvel: [N, nq], [N, nv] views of the current state; write to them to place the robots.
      controls: [N, substeps, nu] the actuators' inputs of the next step.
      mocap: [N, substeps, bodies, 3] the positions of the moving and of the placed solids in the next step.
      sensors: [N, substeps, nsensordata] what the sensors read at the beginning of each sub-step of the last step.
    """

    def __init__(self, model: mujoco.MjModel, num_envs: int, substeps: int, threads: int = 1):
        if threads < 1:
            raise ValueError(f"threads must be at least 1, got {threads}")
        self.model = model
        self._rollout = Rollout(nthread=threads if threads > 1 else 0)
        self._models = [model] * num_envs
        self._data = [mujoco.MjData(model) for _ in range(threads)]
        # Small pieces keep the threads busy to the end, but handing one over costs as much as a few simulations.
        self._chunk = max(5, num_envs // (10 * threads))

        state_size = mujoco.mj_stateSize(model, _PHYSICS)
        self._rest = np.empty(state_size)
        mujoco.mj_getState(model, self._data[0], self._rest, _PHYSICS)
        self.state = np.tile(self._rest, (num_envs, 1))
        self.qpos = self.state[:, 1 : 1 + model.nq]
        self.qvel = self.state[:, 1 + model.nq : 1 + model.nq + model.nv]

        self._inputs = np.zeros((num_envs, substeps, mujoco.mj_stateSize(model, _CONTROL)))
        self.controls = self._inputs[..., : model.nu]
        self.mocap = self._inputs[..., model.nu :].reshape(num_envs, substeps, -1, 3)
        self._states = np.empty((num_envs, substeps, state_size))
        self.sensors = np.empty((num_envs, substeps, model.nsensordata))

    def step(self) -> None:
        """Advance every simulation by all its sub-steps."""
        self._rollout.rollout(
            self._models,
            self._data,
            self.state,
            self._inputs,
            control_spec=_CONTROL,
            skip_checks=True,
            chunk_size=self._chunk,
            nstep=self._inputs.shape[1],
            state=self._states,
            sensordata=self.sensors,
        )
        self.state[:] = self._states[:, -1]

    def rest(self, envs: np.ndarray) -> None:
        """Put the simulations `envs` into the model's initial state, at time 0 and at rest."""
        self.state[envs] = self._rest
        self.controls[envs] = 0.0

    def acceleration(self) -> np.ndarray:
        """[N, nv] the mean acceleration over the last sub-step of the last step."""
        velocity = self._states[:, -2:, 1 + self.model.nq : 1 + self.model.nq + self.model.nv]
        return (velocity[:, 1] - velocity[:, 0]) / self.model.opt.timestep

    def snapshot(self, env: int) -> mujoco.MjData:
        """The simulation `env` as MuJoCo's own data, its shapes in place: for looking at, not for stepping."""
        data = mujoco.MjData(self.model)
        mujoco.mj_setState(self.model, data, self.state[env], _PHYSICS)
        data.mocap_pos[:] = self.mocap[env, -1]
        mujoco.mj_kinematics(self.model, data)
        return data

    def close(self) -> None:
        """Stop the threads."""
        self._rollout.close()
