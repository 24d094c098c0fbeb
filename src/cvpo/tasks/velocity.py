"""The velocity tasks: run forward, but not faster than a limit."""

from pathlib import Path

import gymnasium
import mujoco
import numpy as np

from cvpo.errors import BadValue
from cvpo.tasks.arena import DISABLED
from cvpo.tasks.contact_pairs import compile_with_pairs
from cvpo.tasks.physics import Physics
from cvpo.tasks.runners import Runner
from cvpo.tasks.shapes import Shape

_MODELS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"


def runner_model(runner: Runner) -> mujoco.MjModel:
    """The robot's model, so that it moves as it did in the MuJoCo that the task's figures come from."""
    spec = mujoco.MjSpec.from_file(str(_MODELS / runner.model))
    spec.option.disableflags |= DISABLED
    # MuJoCo warns of this setting: the masses are scaled after compiling instead
    total_mass, spec.compiler.settotalmass = spec.compiler.settotalmass, -1
    # MuJoCo once took the larger of two geoms' margins, where it now adds them up
    for geom in spec.geoms:
        geom.margin /= 2
    model = compile_with_pairs(spec)
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
        self._watched = [_Watched(runner, model) for _ in rngs] if runner.place != "qpos" else []
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
                watched = self._watched[env]
                watched.load(physics, env)
                # no forces are felt at the start, and a forward pass leaves the old ones
                watched.data.cfrc_ext[:] = 0.0
                mujoco.mj_forward(physics.model, watched.data)
                watched.look(self._place[env], self._felt[env])
        if not self._watched:
            self._place[envs] = self._planar()[envs]

    def advance(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """One control step: rewards [N], whether the episode terminates [N], and what happened, each [N]."""
        runner, physics = self.runner, self.physics
        # the penalty is for the action as it was given; MuJoCo itself takes no more of it than its range
        effort = np.einsum("ij,ij->i", actions, actions)
        if not np.isfinite(effort).all():
            raise BadValue(f"actions must be finite, as the reward falls with their squares; got {actions.tolist()}")
        physics.controls[:] = actions[:, None]
        before = self._place.copy()
        physics.step()
        if self._watched:
            self._last_substep()
        else:
            self._place[:] = self._planar()
        velocity = (self._place - before) / self.step_seconds
        ahead = velocity[:, 0]
        speed = np.sqrt(ahead**2 + velocity[:, 1] ** 2) if runner.planar else ahead
        reward = runner.forward * ahead + runner.alive - runner.control * effort
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
        model, physics = self.physics.model, self.physics
        for env, watched in enumerate(self._watched):
            watched.load(physics, env)
            mujoco.mj_step(model, watched.data)
            if self.runner.inner:
                mujoco.mj_rnePostConstraint(model, watched.data)
            watched.store(physics, env)
            watched.look(self._place[env], self._felt[env])

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


class _Watched:
    """One world of a task that reads more than qpos and qvel.

    Its last sub-step is MuJoCo's own, one world after another: what it leaves in its data belongs to the last stage of
    the integrator, and no sensor shows it.
    """

    def __init__(self, runner: Runner, model: mujoco.MjModel):
        self.data = data = mujoco.MjData(model)
        # to ask the data for its arrays takes longer than to read them
        self._qpos, self._qvel, self._controls = data.qpos, data.qvel, data.ctrl
        self._torso, self._centres = data.xpos[1, :2], data.xipos[:, :2]
        self._mass, self._total_mass = model.body_mass.copy(), model.body_mass.sum()
        self._by_mass = runner.place == "mass"
        arrays = (data.cinert, data.cvel, data.qfrc_actuator, data.cfrc_ext) if runner.inner else ()
        self._inner = [array.reshape(-1) for array in arrays]

    def load(self, physics: Physics, env: int) -> None:
        """Take over the state and the last controls of the simulation `env`: these robots have nothing else."""
        self.data.time = physics.state[env, 0]
        self._qpos[:], self._qvel[:] = physics.qpos[env], physics.qvel[env]
        self._controls[:] = physics.controls[env, -1]

    def store(self, physics: Physics, env: int) -> None:
        """Give the state back."""
        physics.state[env, 0] = self.data.time
        physics.qpos[env], physics.qvel[env] = self._qpos, self._qvel

    def look(self, place: np.ndarray, felt: np.ndarray) -> None:
        """Write where the robot is [2], and the inertias, velocities and forces of its bodies if they are seen."""
        place[:] = self._mass @ self._centres / self._total_mass if self._by_mass else self._torso
        if self._inner:
            np.concatenate(self._inner, out=felt)
