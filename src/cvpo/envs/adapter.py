"""Any Gymnasium environment behind one narrow interface: N copies, flat observations, actions in [-1, 1], costs."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import reprlib
import signal
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from cvpo.envs.spaces import Layout, flatten, layout_of, size_of
from cvpo.errors import BadValue, did_you_mean
from cvpo.tasks.table import TASKS, Task, find_task

EnvSource = str | Callable[[], gym.Env]


_PART = "cost_"


class BadEnvironment(BadValue):
    """An environment that cannot be learned from, with the reason and the remedy."""


class Step(NamedTuple):
    """What one step gave: `next_obs` followed in the same episode, `obs` is where each environment is now."""

    obs: np.ndarray  # [N, D]
    next_obs: np.ndarray  # [N, D]
    reward: np.ndarray  # [N]
    costs: np.ndarray  # [N, m]
    terminated: np.ndarray  # [N]
    ended: np.ndarray  # [N]
    parts: dict[str, np.ndarray] = {}  # noqa: RUF012  [N] each: what the environment says its cost consists of


class CostEnv(gym.Wrapper):
    """One environment with a flat float32 observation and its costs as an array in info["costs"].

    Understands a number in info["cost"], an array in info["costs"], a list of keys of info, and the six values
    (observation, reward, cost, terminated, truncated, info) of Safety-Gymnasium's step.
    """

    def __init__(self, env: gym.Env, num_costs: int, cost_keys: Sequence[str], required: bool) -> None:
        super().__init__(env)
        self.layout = layout_of(env.observation_space)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (size_of(self.layout),), np.float32)
        self._num_costs, self._keys, self._required = num_costs, tuple(cost_keys), required

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict[str, Any]]:
        values: Any = self.env.reset(**kwargs)
        if not (isinstance(values, tuple) and len(values) == 2):
            raise BadEnvironment(
                f"reset of {_name(self.env)} must return (observation, info) as Gymnasium says, got {_short(values)}"
            )
        return self._flat(values[0]), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        values: tuple[Any, ...] = self.env.step(action)
        if len(values) == 6:
            obs, reward, cost, terminated, truncated, info = values
            info = {"cost": cost} | info
        elif len(values) == 5:
            obs, reward, terminated, truncated, info = values
        else:
            raise BadEnvironment(
                f"step of {_name(self.env)} must return (observation, reward, terminated, truncated, info), got "
                f"{len(values)} values"
            )
        try:
            reward = float(reward)
        except (TypeError, ValueError):
            raise BadEnvironment(f"{_name(self.env)} must give a number as reward, got {_short(reward)}") from None
        return self._flat(obs), reward, terminated, truncated, {"costs": self._costs(info)} | _cost_parts(info)

    def _flat(self, obs: Any) -> np.ndarray:
        try:
            flat, batched = flatten(self.layout, obs)
        except ValueError as error:
            raise BadEnvironment(f"{_name(self.env)} broke its observation space: {error}") from None
        if batched:
            raise BadEnvironment(f"{_name(self.env)} gave a batch of observations where its space says one")
        return flat

    def _costs(self, info: dict[str, Any]) -> np.ndarray:
        found: Any
        if self._keys:
            missing = [key for key in self._keys if key not in info]
            if missing:
                raise BadEnvironment(f"{_name(self.env)} gives no info[{missing[0]!r}]; info has {sorted(info)}")
            found = [info[key] for key in self._keys]
        elif "costs" in info and (self._num_costs > 1 or "cost" not in info):
            found = list(info["costs"].values()) if isinstance(info["costs"], dict) else info["costs"]
        elif "cost" in info:
            found = info["cost"]
        elif not self._required:
            return np.zeros(self._num_costs, np.float32)
        else:
            raise BadEnvironment(
                f"{_name(self.env)} gives no cost: info has keys {sorted(info)}. Put a number in info['cost'], one for "
                "each constraint in info['costs'], or name the keys with cost_keys"
            )
        try:
            costs = np.atleast_1d(np.asarray(found, np.float32))
        except (TypeError, ValueError):
            raise BadEnvironment(
                f"{_name(self.env)} must give a number for each cost, got {_short(found)}; cost_keys names keys of info"
            ) from None
        if costs.shape != (self._num_costs,):
            raise BadEnvironment(
                f"{_name(self.env)} gives {costs.size} costs but there are {self._num_costs} limits; "
                "pass cost_limit with one number for each"
            )
        return costs


class Environments:
    """N copies of an environment that reset themselves: what the training loop talks to."""

    def __init__(
        self,
        source: EnvSource,
        count: int,
        num_costs: int = 1,
        cost_required: bool = True,
        cost_keys: Sequence[str] = (),
        episode_length: int | None = None,
        processes: bool = False,
        threads: int = 1,
    ) -> None:
        self.count, self.num_costs = count, num_costs
        task = find_task(source)
        # what makes the environment again: a task's name, whichever way it was asked for, or an id; None: a callable
        self.source = task.source if task else source if isinstance(source, str) else None
        # One environment is made, looked at and stepped here, so that whatever is wrong shows before any training.
        make_one = partial(_make_one, source, num_costs, tuple(cost_keys), cost_required, episode_length)
        with contextlib.closing(make_one()) as probe:
            self.name = task.name if task else _name(probe)
            built_in = getattr(probe.unwrapped, "task", None)  # of a callable too
            own_length = built_in.episode_length if isinstance(built_in, Task) else None
            self.episode_length = _time_limit(probe, own_length)
            # the most that a step can cost, if the environment says so: then bounds of the expected cost exist
            self.max_step_cost = _max_step_cost(probe)
            self.layout: Layout = probe.get_wrapper_attr("layout")
            self._read_actions(probe.action_space)
            try:
                probe.reset(seed=0)
                probe.step(probe.action_space.sample())
            except BadEnvironment:
                raise
            except (
                TypeError,
                ValueError,
            ) as error:  # such as Gymnasium's wrappers raise
                raise BadEnvironment(f"{self.name} fails in its first reset and step: {error}") from error
        self.obs_size = size_of(self.layout)
        self._vector: gym.vector.VectorEnv
        if task is not None and episode_length is None and num_costs == 1 and not cost_keys:
            native = gym.VectorizeMode.VECTOR_ENTRY_POINT
            self._vector = gym.make_vec(
                task.id, num_envs=count, vectorization_mode=native, threads=threads, **task.options
            )
            self._cost_key = "cost"
        elif processes:
            # not fork: JAX has threads, and a forked thread pool deadlocks
            make = partial(_make_in_process, make_one)
            self._vector = AsyncVectorEnv([make] * count, autoreset_mode=AutoresetMode.SAME_STEP, context="spawn")
            self._cost_key = "costs"
        else:
            self._vector = SyncVectorEnv([make_one] * count, autoreset_mode=AutoresetMode.SAME_STEP)
            self._cost_key = "costs"
        self._time = 0

    def _read_actions(self, space: gym.Space) -> None:
        self.discrete = isinstance(space, gym.spaces.Discrete)
        if isinstance(space, gym.spaces.Discrete):
            self.action_size, self._start = int(space.n), int(space.start)
            return
        if not isinstance(space, gym.spaces.Box):
            raise BadEnvironment(f"actions of {self.name} are {space}; Box and Discrete are supported")
        if not np.isfinite(space.low).all() or not np.isfinite(space.high).all():
            raise BadEnvironment(
                f"actions of {self.name} have no bounds ({space}); wrap it with gymnasium.wrappers.RescaleAction"
                " or give its action space finite bounds"
            )
        self.action_size = int(np.prod(space.shape, dtype=int))
        self._shape, self._dtype = space.shape, space.dtype
        self.action_low = space.low.astype(np.float64).reshape(-1)
        self.action_high = space.high.astype(np.float64).reshape(-1)

    def reset(self, seeds: Sequence[int] | np.ndarray) -> np.ndarray:
        """Start new episodes, one seed for each environment: observations [N, D]."""
        self._time = 0
        each: Any = [int(seed) for seed in seeds]  # vector environments take a list too, whatever their types say
        obs, _ = self._vector.reset(seed=each)
        return self._checked("observation", np.asarray(obs, np.float32))

    def step(self, action: np.ndarray) -> Step:
        """Take actions [N, a] in [-1, 1] (clipped), or integers [N]."""
        obs, reward, terminated, truncated, infos = self._vector.step(self.to_native(action))
        self._time += 1
        obs = np.asarray(obs, np.float32)
        ended = terminated | truncated
        next_obs, costs = obs, infos.get(self._cost_key)
        if ended.any():
            # an ended environment has been reset already: its last observation and info are kept apart
            final = infos["final_info"][self._cost_key]
            costs = final if costs is None or ended.all() else np.where(_along(ended, final), final, costs)
            next_obs = obs.copy()
            next_obs[ended] = np.stack(list(infos["final_obs"][ended])).astype(np.float32)
        costs = np.asarray(costs, np.float32).reshape(self.count, self.num_costs)
        parts = {name: self._of_step(infos, name, ended) for name in _part_names(infos)}
        return Step(
            obs=self._checked("observation", obs),
            next_obs=self._checked("observation", next_obs) if next_obs is not obs else obs,
            reward=self._checked("reward", np.asarray(reward, np.float32)),
            costs=self._checked("cost", costs),
            terminated=terminated,
            ended=ended,
            parts=parts,
        )

    def _of_step(self, infos: dict[str, Any], name: str, ended: np.ndarray) -> np.ndarray:
        """An entry of the infos [N] as the step taken had it; an ended environment's are kept apart."""
        nothing = np.zeros(self.count)
        values = np.asarray(infos.get(name, nothing), float)
        if ended.any():
            values = np.where(ended, np.asarray(infos["final_info"].get(name, nothing), float), values)
        return values

    def to_native(self, action: np.ndarray) -> np.ndarray:
        """Actions as the environment's own space has them."""
        if self.discrete:
            return np.asarray(action) + self._start
        native = rescale(action, self.action_low, self.action_high)
        return native.reshape(len(native), *self._shape).astype(self._dtype)

    def from_native(self, where: object, action: np.ndarray) -> np.ndarray:
        """What `to_native` undoes: [T, a] in [-1, 1], or integers [T]; refuses actions of another space."""
        if self.discrete:
            choice = np.asarray(action).reshape(len(action), -1)[:, 0] - self._start
            if np.size(action) != len(action) or (choice < 0).any() or (choice >= self.action_size).any():
                raise BadEnvironment(
                    f"{where}: actions of {self.name} are integers from {self._start} to "
                    f"{self._start + self.action_size - 1}, one a step"
                )
            return choice.astype(np.int32)
        flat = np.asarray(action, float).reshape(len(action), -1)
        if flat.shape[1] != self.action_size:
            raise BadEnvironment(
                f"{where}: actions have {flat.shape[1]} numbers a step, those of {self.name} {self.action_size}"
            )
        width = np.where(self.action_high > self.action_low, self.action_high - self.action_low, 1.0)
        return np.clip(2 * (flat - self.action_low) / width - 1, -1.0, 1.0).astype(np.float32)

    def action_layout(self) -> dict[str, Any]:
        """What a policy needs to give actions in the environment's own units, in JSON's types."""
        if self.discrete:
            return {"start": self._start}
        low, high = self.action_low.tolist(), self.action_high.tolist()
        return {"low": low, "high": high, "shape": list(self._shape), "dtype": np.dtype(self._dtype).name}

    def _checked(self, what: str, values: np.ndarray) -> np.ndarray:
        if not np.isfinite(values).all():
            bad = int(np.argwhere(~np.isfinite(values.reshape(self.count, -1)).all(1))[0, 0])
            raise BadEnvironment(
                f"{self.name} gave a non-finite {what}, {values[bad]}, in environment {bad} of {self.count} "
                f"at step {self._time} of its epoch"
            )
        return values

    def places(self) -> np.ndarray | None:
        """Where the robots are now, x and y [N, 2]; None if these are not built-in tasks stepped together."""
        world: Any = getattr(self._vector.unwrapped, "world", None)
        if not hasattr(world, "pose"):
            return None
        return np.array([world.pose(env)[:2] for env in range(self.count)])

    def close(self) -> None:
        self._vector.close()

    def __enter__(self) -> Environments:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def rescale(action: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Actions in [-1, 1], clipped to it, on [low, high]."""
    return low + (np.clip(action, -1.0, 1.0) + 1.0) * 0.5 * (high - low)


def check_known(source: EnvSource) -> None:
    """Refuse a name that is neither a task nor a Gymnasium id, which "module:id" has registered by an import."""
    if isinstance(source, str) and not find_task(source):
        module, _, name = source.rpartition(":")
        try:
            if module:
                importlib.import_module(module)
            gym.spec(name)
        except ImportError as error:
            raise BadEnvironment(f"cannot import {module!r} of the environment {source!r}: {error}") from error
        except gym.error.Error as error:
            known = [*TASKS, *gym.registry]
            raise BadEnvironment(f"no task or environment {name!r}{did_you_mean(name, known)}") from error


def make_plain(source: EnvSource, **kwargs: Any) -> gym.Env:
    """The environment itself; the keywords are for one that is made by name."""
    if isinstance(source, str):
        check_known(source)
        task = find_task(source)
        try:
            options = task.options | kwargs if task else kwargs
            return gym.make(task.id if task else source, disable_env_checker=True, **options)
        except gym.error.Error as error:  # such as a missing package
            raise BadEnvironment(f"cannot make {source}: {error}") from error
    if not callable(source):
        raise BadEnvironment(
            f"an environment is given as a task's name, an id or a callable that makes it, as several are needed; got "
            f"{_short(source)}"
        )
    env = source()
    if not isinstance(env, gym.Env):
        raise BadEnvironment(f"the callable must make a gymnasium.Env, got {type(env).__name__}")
    return env


def _make_one(
    source: EnvSource, num_costs: int, cost_keys: tuple[str, ...], required: bool, episode_length: int | None
) -> gym.Env:
    env: gym.Env = CostEnv(make_plain(source), num_costs, cost_keys, required)
    if episode_length is None and env.spec is not None and not _enforced_limits(env):
        episode_length = env.spec.max_episode_steps  # stated, but an environment without wrappers would run on
    if episode_length is not None:
        env = gym.wrappers.TimeLimit(env, episode_length)
    return env


def _cost_parts(info: dict[str, Any]) -> dict[str, float]:
    """The parts of a cost: numbers in info whose names begin with cost_, as info["cost_hazards"]."""
    return {
        name: float(value)
        for name, value in info.items()
        if name.startswith(_PART) and isinstance(value, (int, float, np.number, np.bool_))
    }


def _part_names(infos: dict[str, Any]) -> list[str]:
    found = [*infos, *infos.get("final_info", {})]
    return sorted({name for name in found if isinstance(name, str) and name.startswith(_PART)})


def _make_in_process(make: Callable[[], gym.Env]) -> gym.Env:
    """In a process of its own. Ctrl-C reaches it too, but it is the training process that says when to stop."""
    if multiprocessing.parent_process() is not None:  # the training process makes one too, to look at its spaces
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return make()


def _time_limit(env: gym.Env, own: int | None) -> int:
    """The shortest time limit among the wrappers and the one that the task states of itself."""
    limits = _enforced_limits(env) + ([] if own is None else [own])
    if not limits:
        raise BadEnvironment(f"{_name(env)} states no time limit; set episode_length to the steps of an episode")
    return int(min(limits))


def _max_step_cost(env: gym.Env) -> float | None:
    value = getattr(env.unwrapped, "max_step_cost", None)
    return None if value is None else float(value)


def _enforced_limits(env: gym.Env) -> list[int]:
    limits: list[int] = []
    layer: Any = env
    while layer is not None:
        if isinstance(layer, gym.wrappers.TimeLimit):
            limits.append(layer._max_episode_steps)
        layer = getattr(layer, "env", None)
    return limits


def _name(env: gym.Env) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def _short(value: Any) -> str:
    return f"{type(value).__name__} {reprlib.repr(value)}"


def _along(mask: np.ndarray, values: np.ndarray) -> np.ndarray:
    return mask.reshape(-1, *[1] * (np.ndim(values) - 1))
