"""Any environment behind one narrow interface: N copies, flat observations, actions in [-1, 1], costs."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv

from cvpo.envs.actions import ActionSpec, NativeActions
from cvpo.envs.copies import Copies, LocalCopies, Step
from cvpo.envs.errors import BadEnvironment, EnvironmentTimeout, Place
from cvpo.envs.hangs import Thread, Watch, call_directly, too_late
from cvpo.envs.identity import identity
from cvpo.envs.on_ray import RayCopies
from cvpo.envs.sources import EnvSource, Remote, as_source, check_known, for_worker, make_plain, to_text
from cvpo.envs.spaces import ObservationSpec, images_of, numbers_in, size_of
from cvpo.envs.vector import VectorCopies
from cvpo.envs.workers import WorkerCopies
from cvpo.tasks.registry import find_task


class Environments:
    """N copies of an environment that begin new episodes by themselves: what the training loop talks to."""

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
        python: str | None = None,
        timeout: float | None = None,
        name: str | None = None,
        ray: str | None = None,
    ) -> None:
        """A vector environment has its own count.

        python: the interpreter that runs the environment of a name. timeout: seconds for an answer. name: what to call
        the environment if other than it calls itself. ray: address of a Ray cluster that runs the environments.
        """
        source = as_source(source)
        if python is not None and not isinstance(source, Remote):
            if not isinstance(source, str):
                raise BadEnvironment("python runs an environment that is given by name; use cvpo.remote for others")
            source = Remote(source, python)
        self.num_costs = num_costs
        task = find_task(source)
        self.source = to_text(source)
        self._place = Place(count)
        self._place.name = source if isinstance(source, str) else getattr(source, "env", "the environment")
        options = {
            "costs": num_costs,
            "cost_keys": list(cost_keys),
            "cost_required": cost_required,
            "episode_length": episode_length,
        }
        native = task is not None and episode_length is None and num_costs == 1 and not cost_keys
        self._watch = Watch(self._where)
        # a process has a time limit of its own
        self._call: Callable[..., Any] = call_directly
        if timeout is not None and not processes and not isinstance(source, Remote) and ray is None:
            self._call = Thread(timeout, lambda seconds: too_late(self._where(), seconds))
        try:
            with self._watch:
                self._copies: Copies = self._call(
                    make_copies,
                    source,
                    count,
                    options,
                    self._place,
                    processes,
                    timeout,
                    threads if native and ray is None else None,
                    ray,
                )
            self._read(self._copies.description, name or (task.name if task else None))
            self.identity = identity(task.source if task else source, self._copies.description)
        except BaseException:
            self.close()
            raise

    def _read(self, description: dict[str, Any], name: str | None) -> None:
        self.count = self._copies.count
        self.name = self._place.name = name or description["name"]
        self.observation: ObservationSpec = description["observation"]
        self.action: ActionSpec = description["action"]
        self._to_native = NativeActions(self.action)
        self.max_step_cost: float | None = description["max_step_cost"]
        self.obs_size, self.images = size_of(self.observation), images_of(self.observation)
        options = self.action.get("choices")
        self.discrete = isinstance(options, int)
        self.choices = tuple(options) if isinstance(options, list) else ()
        self.action_size = options if self.discrete else sum(self.choices) or len(self.action["low"])
        if description["time_limit"] is None:
            raise BadEnvironment(f"{self.name} states no time limit; set episode_length to the steps of an episode")
        self.episode_length: int = description["time_limit"]

    def for_evaluation(self, make: Callable[[], Environments]) -> contextlib.AbstractContextManager[Environments]:
        """Environments to evaluate in: these very ones, as they start anew anyway, where others would be expensive."""
        cheap = isinstance(self._copies, LocalCopies) or find_task(self.source)
        return make() if cheap else contextlib.nullcontext(self)

    def reset(self, seeds: Sequence[int] | np.ndarray) -> np.ndarray:
        """Start new episodes, one seed for each environment: observations [N, D]."""
        self._place.time = 0
        with self._watch:
            obs = self._call(self._copies.reset, [int(seed) for seed in seeds])
        self._checked("observation", numbers_in(self.observation, obs))
        return obs

    def step(self, action: np.ndarray) -> Step:
        """Take actions [N, a] in [-1, 1] (clipped), or choices [N]."""
        self._place.time += 1
        with self._watch:
            step = self._call(self._copies.step, self._to_native(action))
        numbers = numbers_in(self.observation, step.obs)
        for what, values in (("observation", numbers), ("reward", step.reward), ("cost", step.costs)):
            self._checked(what, values)
        if step.next_obs is not step.obs:
            self._checked("observation", numbers_in(self.observation, step.next_obs))
        return step

    def _checked(self, what: str, values: np.ndarray) -> None:
        if not np.isfinite(values).all():
            bad = int(np.argwhere(~np.isfinite(values.reshape(self.count, -1)).all(1))[0, 0])
            raise BadEnvironment(
                f"{self.name} gave a non-finite {what}, {values[bad]}, in environment {bad} of {self.count} "
                f"at step {self._place.time} of its epoch"
            )

    def places(self) -> np.ndarray | None:
        """Where the robots are now, x and y [N, 2]; None if these are not built-in tasks stepped together."""
        env: Any = getattr(self._copies, "env", None)
        world: Any = getattr(getattr(env, "unwrapped", None), "world", None)
        return np.array([world.pose(i)[:2] for i in range(self.count)]) if hasattr(world, "pose") else None

    def _where(self) -> str:
        return self._place.of(self._copies.waiting_for() if hasattr(self, "_copies") else 0)

    def close(self) -> None:
        self._watch.close()
        if hasattr(self, "_copies"):
            with contextlib.suppress(EnvironmentTimeout):  # it hung before
                self._call(self._copies.close)

    def __enter__(self) -> Environments:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_copies(
    source: EnvSource,
    count: int,
    options: dict[str, Any],
    place: Place,
    processes: bool,
    timeout: float | None,
    native_threads: int | None,
    ray: str | None = None,
) -> Copies:
    """What runs the environments; `native_threads` is for a built-in task that runs as it is made for."""
    if ray is not None:
        if isinstance(source, VectorEnv):
            raise BadEnvironment("a vector environment runs in the training process: leave out envs_on_ray")
        return RayCopies(partial(_make_one, source, options, processes, timeout), ray, count, place, timeout)
    check_known(source)
    if isinstance(source, Remote):
        return WorkerCopies(for_worker(source), source.python, count, options, place, timeout)
    if native_threads is not None:
        task = find_task(source)
        assert task is not None
        mode = gym.VectorizeMode.VECTOR_ENTRY_POINT
        env = gym.make_vec(task.id, num_envs=count, vectorization_mode=mode, threads=native_threads, **task.options)
        return VectorCopies(env, options | {"episode_length": task.episode_length}, place, owned=True)
    if isinstance(source, VectorEnv):
        return VectorCopies(source, options, place, owned=False)
    if processes:
        return WorkerCopies(for_worker(source), None, count, options, place, timeout)
    first = make_plain(source)
    if isinstance(first, VectorEnv):
        return VectorCopies(first, options, place, owned=True)
    made = itertools.chain([first], iter(partial(make_plain, source), None))
    return LocalCopies(partial(next, made), count, options, place)


def _make_one(
    source: EnvSource, options: dict[str, Any], processes: bool, timeout: float | None, place: Place
) -> Copies:
    """One of several copies, of which each is on a machine of its own."""
    return make_copies(source, 1, options, place, processes, timeout, None)
