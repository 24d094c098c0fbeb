"""The velocity tasks: run forward, but not faster than a limit."""

from collections.abc import Callable
from pathlib import Path

import gymnasium
import mujoco
import numpy as np

from cvpo.errors import BadValue
from cvpo.tasks.arena import DISABLED
from cvpo.tasks.physics import Physics
from cvpo.tasks.runners import Runner
from cvpo.tasks.shapes import Shape

_MODELS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"


_PLACES: dict[str, Callable[[mujoco.MjModel, mujoco.MjData], np.ndarray]] = {
    "torso": lambda model, data: data.xpos[1, :2],
    "mass": lambda model, data: model.body_mass @ data.xipos[:, :2] / model.body_mass.sum(),
}


def runner_model(runner: Runner) -> mujoco.MjModel:
    """The robot's model, so that it moves as it did in the MuJoCo that the task's figures come from."""
    spec = mujoco.MjSpec.from_file(str(_MODELS / runner.model))
    spec.option.disableflags |= DISABLED
    # MuJoCo warns of this setting: the masses are scaled after compiling instead
    total_mass, spec.compiler.settotalmass = spec.compiler.settotalmass, -1
    # MuJoCo once took the larger of two geoms' margins, where it now adds them up
    for geom in spec.geoms:
        geom.margin /= 2
    model = spec.compile()
    if total_mass > 0:
        mujoco.mj_setTotalmass(model, total_mass)
        mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


class Velocity:
    """N worlds of one velocity task; when an episode's time is over is for others to say."""

    def __init__(self, runner: Runner, rngs: list[np.random.Generator], threads: int):
        """`rngs` [N] holds each world's generator; the caller may replace them at any time."""
        self.runner, self._rngs = runner, rngs
        model = runner_model(runner)
        num_envs = len(rngs)
        # Where the task reads more than qpos and qvel, the last sub-step is MuJoCo's own, one world after another: what
        # it leaves in its data belongs to the last stage of the integrator, and no sensor shows it.
        self._watched = [mujoco.MjData(model) for _ in rngs] if runner.place in _PLACES else []
        self.physics = Physics(model, num_envs, runner.substeps - bool(self._watched), threads)
        self.step_seconds = runner.substeps * model.opt.timestep
        self.action_range = model.actuator_ctrlrange.T.copy()
        self._rest = model.qpos0.copy()
        self._place = np.zeros((num_envs, 2))
        bodies = model.nbody
        self._felt = np.zeros((num_envs, bodies * 22 + model.nv if runner.inner else 0))
        self.observation_size = runner.observation_size
        self.extent, self.follows, self.side_view = 2.0, True, runner.side_view

    def begin(self, envs: np.ndarray) -> None:
        """Start an episode in the worlds `envs` [n]: near the robot's rest."""
        runner, physics = self.runner, self.physics
        physics.rest(envs)
        for env in envs.tolist():
            rng, noise = self._rngs[env], runner.noise
            physics.qpos[env] = self._rest + rng.uniform(-noise, noise, self._rest.shape)
            velocity = rng.standard_normal if runner.normal else None
            speeds = physics.qvel.shape[1]
            physics.qvel[env] = noise * velocity(speeds) if velocity else rng.uniform(-noise, noise, speeds)
            # the noise is on quaternions, too
            qpos = physics.qpos[env].copy()
            mujoco.mj_normalizeQuat(physics.model, qpos)
            physics.qpos[env] = qpos
            if self._watched:
                data = self._watched[env]
                mujoco.mj_resetData(physics.model, data)
                physics.load(env, data)
                mujoco.mj_forward(physics.model, data)
                self._look(env, data)
        if not self._watched:
            self._place[envs] = self._planar()[envs]

    def advance(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """One control step: rewards [N], whether the episode terminates [N], and what happened, each [N]."""
        runner, physics = self.runner, self.physics
        if not np.isfinite(actions).all():
            raise BadValue(f"actions must be finite, as the reward falls with their squares; got {actions.tolist()}")
        physics.controls[:] = np.clip(actions, *self.action_range)[:, None]
        before = self._place.copy()
        physics.step()
        if self._watched:
            self._last_substep()
        else:
            self._place[:] = self._planar()
        velocity = (self._place - before) / self.step_seconds
        ahead = velocity[:, 0]
        speed = np.sqrt(ahead**2 + velocity[:, 1] ** 2) if runner.planar else ahead
        # the penalty is for the action as it was given
        reward = runner.forward * ahead + runner.alive - runner.control * np.square(actions).sum(axis=1)
        cost = (speed > runner.speed_limit).astype(float)
        infos = {
            "cost": cost,
            "cost_velocity": cost.copy(),
            "speed": speed,
            "x_velocity": ahead.copy(),
            "x_position": self._place[:, 0].copy(),
        }
        return reward, self._fallen(), infos

    def observe(self) -> np.ndarray:
        """Observations [N, D], float32."""
        seen, velocity, limit = self.physics.qpos[:, self.runner.unseen :], self.physics.qvel, self.runner.seen_speed
        if limit < np.inf:
            velocity = np.clip(velocity, -limit, limit)
        return np.concatenate([seen, velocity, self._felt], axis=1, dtype=np.float32)

    def pose(self, env: int) -> tuple[float, float, float]:
        """Where the robot of world `env` is and which way it runs: x, y, angle."""
        x, y = self._place[env]
        return float(x), float(y), 0.0

    def marks(self, env: int) -> list[Shape]:
        """Nothing lies on the floor."""
        return []

    def get_state(self) -> dict[str, np.ndarray]:
        """Everything that `advance` and `observe` depend on, as copies."""
        return {name: array.copy() for name, array in self._state().items()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Continue from what `get_state` returned."""
        for name, array in self._state().items():
            array[:] = state[name]

    def _state(self) -> dict[str, np.ndarray]:
        return {"physics": self.physics.state, "place": self._place, "felt": self._felt}

    def _planar(self) -> np.ndarray:
        """[N, 2] where the robots are, by qpos; those in the plane of x and z have no y."""
        place = self.physics.qpos[:, :2].copy()
        if self.runner.unseen == 1:
            place[:, 1] = 0.0
        return place

    def _last_substep(self) -> None:
        model = self.physics.model
        for env, data in enumerate(self._watched):
            self.physics.load(env, data)
            mujoco.mj_step(model, data)
            if self.runner.inner:
                mujoco.mj_rnePostConstraint(model, data)
            self.physics.store(env, data)
            self._look(env, data)

    def _look(self, env: int, data: mujoco.MjData) -> None:
        self._place[env] = _PLACES[self.runner.place](self.physics.model, data)
        if self.runner.inner:
            arrays = (data.cinert, data.cvel, data.qfrc_actuator, data.cfrc_ext)
            np.concatenate([array.ravel() for array in arrays], out=self._felt[env])

    def _fallen(self) -> np.ndarray:
        """[N] whether the robot is no longer up, or beyond what it can do."""
        runner, qpos, qvel = self.runner, self.physics.qpos, self.physics.qvel
        low, high = runner.height_range
        if np.isinf(low):
            return np.zeros(len(qpos), dtype=bool)
        height, rest = qpos[:, runner.height], qpos[:, runner.height + 1 :]
        up = (low <= height) & (height <= high)
        if runner.tilt < np.inf:
            up &= np.abs(rest[:, 0]) < runner.tilt
        if runner.bound < np.inf:
            up &= (np.abs(rest) < runner.bound).all(axis=1) & (np.abs(qvel) < runner.bound).all(axis=1)
        return ~up
