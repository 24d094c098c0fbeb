"""N copies of an environment in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np

from cvpo.envs.errors import BadEnvironment, Place
from cvpo.envs.spaces import ObservationSpec, assemble, flatten
from cvpo.envs.worker.block import Block
from cvpo.envs.worker.copy import Copy
from cvpo.envs.worker.problem import Problem


class Step(NamedTuple):
    """What one step gave: `next_obs` followed in the same episode, `obs` is where each environment is now."""

    obs: np.ndarray  # [N, D]
    next_obs: np.ndarray  # [N, D]
    reward: np.ndarray  # [N]
    costs: np.ndarray  # [N, m]
    terminated: np.ndarray  # [N]
    ended: np.ndarray  # [N]
    acted: np.ndarray  # [N]; where false the action was ignored and an episode began instead
    parts: dict[str, np.ndarray]  # [N] each: what the environment says its cost consists of


class Copies(Protocol):
    """What runs N environments, wherever they are; actions are in the environment's own units."""

    count: int
    description: dict[str, Any]  # as Copy.describe gives it

    def reset(self, seeds: Sequence[int]) -> np.ndarray: ...
    def step(self, action: np.ndarray) -> Step: ...
    def waiting_for(self) -> int: ...  # the environment whose answer has not come
    def close(self) -> None: ...


class LocalCopies:
    """Copies in this process, one after the other."""

    def __init__(self, make: Callable[[], gym.Env], count: int, options: dict[str, Any], place: Place) -> None:
        self.count, self._place, self._current = count, place, 0
        self._copies: list[Copy] = []
        try:
            self._make(make, options)
        except BaseException:
            self.close()
            raise

    def _make(self, make: Callable[[], gym.Env], options: dict[str, Any]) -> None:
        for i in range(self.count):
            with self._named(i):
                self._copies.append(Copy(make(), options))
                if i == 0:
                    self._copies[0].try_out()
        descriptions = [copy.describe() for copy in self._copies]
        self.description = common_description(descriptions)
        layout = block_layout(self.description, self.count, options)
        self._block = Block(layout)
        for i, copy in enumerate(self._copies):
            copy.attach(self._block, i)

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        for i, (copy, seed) in enumerate(zip(self._copies, seeds, strict=True)):
            with self._named(i):
                copy.reset(seed)
        return flat(self.description["observation"], self._block.obs)

    def step(self, action: np.ndarray) -> Step:
        self._block.action[:] = action
        for i, copy in enumerate(self._copies):
            with self._named(i):
                copy.step()
        return read_step(self.description["observation"], self._block)

    def waiting_for(self) -> int:
        return self._current

    def close(self) -> None:
        while self._copies:
            self._copies.pop().close()

    def _named(self, index: int) -> Named:
        self._current = index
        return Named(self._place, index)


class Named:
    """Says of an exception in which environment and step it was. A bug in the environment stays what it is."""

    def __init__(self, place: Place, index: int) -> None:
        self._place, self._index = place, index

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Problem):
            raise BadEnvironment(problem_text(error, self._place, self._index)) from error.__cause__
        if error is not None and not isinstance(error, BadEnvironment):
            error.add_note(f"This was in {self._place.of(self._index)}.")


def problem_text(problem: object, place: Place, index: int) -> str:
    """The place is added once training is under way; before, all copies are in the same one."""
    if not place.time:
        return str(problem)
    return f"{problem} ({place.short(index)})"


def common_description(descriptions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The description of all copies, which must not differ."""
    first = descriptions[0]
    for i, other in enumerate(descriptions):
        for key in ("observation", "action", "time_limit"):
            if other[key] != first[key]:
                raise BadEnvironment(
                    f"copies of {first['name']} differ: {key} of environment 0 is {first[key]}, of environment {i} "
                    f"{other[key]}; the callable must make the same environment each time"
                )
    return first


def block_layout(description: dict[str, Any], count: int, options: dict[str, Any]) -> dict[str, Any]:
    shared = {key: description[key] for key in ("observation", "action", "parts")}
    return {"count": count, "costs": options["costs"], **shared}


def flat(spec: ObservationSpec, arrays: list[np.ndarray]) -> np.ndarray:
    """Observations [N, D] of the arrays in a block."""
    return flatten(spec, assemble(spec, arrays))[0]


def read_step(spec: ObservationSpec, block: Block) -> Step:
    """What the copies left in their block."""
    obs, ended = flat(spec, block.obs), block.terminated | block.truncated
    next_obs = obs
    if ended.any():
        next_obs = np.where(ended[:, None], flat(spec, block.final_obs), obs)
    costs, terminated = block.costs.copy(), block.terminated.copy()
    parts = dict(zip(block.part_names, block.parts.T.copy(), strict=True))
    return Step(obs, next_obs, block.reward.copy(), costs, terminated, ended, np.ones_like(ended), parts)
