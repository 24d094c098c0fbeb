"""One environment, whatever the age of its interface."""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from typing import Any, Iterator

import numpy as np

from .block import Block
from .costs import cost_parts, read_costs
from .problem import Problem, short
from .spaces import action_spec, class_names, leaves, observation_spec, read_leaves

FIVE = "(observation, reward, terminated, truncated, info)"


class Copy:
    """One environment that begins its next episode by itself.

    A step may return five values, the six of Safety-Gymnasium with the cost in third place, or, with the old gym, four;
    a reset may return (observation, info) or, with the old gym, the observation alone.
    """

    def __init__(self, env: Any, options: dict[str, Any]) -> None:
        """options: "costs" (how many), "cost_keys", "cost_required", "episode_length"; "single": no next episode."""
        self.env, self._options = env, options
        self._spec = getattr(env, "spec", None)
        self.name = str(self._spec.id) if self._spec is not None else type(getattr(env, "unwrapped", env)).__name__
        current = sys.modules.get("gymnasium")
        self._old = current is None or not isinstance(env, current.Env)
        for part in ("observation_space", "action_space", "reset", "step"):
            if getattr(env, part, None) is None:
                raise Problem(f"{self.name} has no {part}; an environment is a gymnasium.Env")
        if hasattr(env, "single_action_space"):
            raise Problem(
                f"{self.name} is a vector environment, which runs in the training process: leave out processes"
            )
        try:
            self._observation, self._action = observation_spec(env.observation_space), action_spec(env.action_space)
        except Problem as problem:
            raise Problem(f"{self.name}: {problem}") from None
        if not sum(int(np.prod(shape, dtype=int)) for shape, _ in leaves(self._observation)):
            raise Problem(f"observations of {self.name} hold no numbers ({env.observation_space}); give it some")
        self._time_limit, self._cut_after = self._time_limits()
        self._elapsed = 0
        self._block: Block | None = None
        self._parts: dict[str, float] = {}
        self._seedable = all(_takes_seed(layer.reset) for layer in _layers(env))
        if not self._seedable and not hasattr(env, "seed"):
            raise Problem(
                f"reset of {self.name} takes no seed, so its episodes could not be repeated; write "
                "def reset(self, *, seed=None, options=None)"
            )

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "id": None if self._spec is None else str(self._spec.id),
            "observation": self._observation,
            "action": self._action,
            "time_limit": self._time_limit,
            "max_step_cost": self._max_step_cost(),
            "parts": sorted(self._parts),
        }

    def attach(self, block: Block, index: int) -> None:
        """Read and write row `index` from now on."""
        self._block, self._index = block, index

    def try_out(self) -> None:
        """One reset and one step, so that whatever is wrong with them shows before any training.

        They also show which parts the cost has.
        """
        try:
            self.reset(0)
            self._read(self.env.step(self.env.action_space.sample()))
        except (TypeError, ValueError) as error:
            # Gymnasium's own wrappers name neither the environment nor a line of it.
            if _raised_by_gym(error):
                raise Problem(f"{self.name} fails in its first reset and step: {error}") from error
            raise

    def reset(self, seed: int | None) -> None:
        """Begin an episode; its first observation goes into the block."""
        self._elapsed = 0
        if seed is not None and not self._seedable:
            self.env.seed(seed)
            seed = None
        values = self.env.reset() if seed is None else self.env.reset(seed=seed)
        if isinstance(values, tuple) and len(values) == 2 and (not self._old or isinstance(values[1], dict)):
            values = values[0]
        elif not self._old:
            raise Problem(
                f"reset of {self.name} must return (observation, info) as Gymnasium says, got {short(values)}"
            )
        self._write(values, self._block.obs if self._block is not None else [])

    def step(self) -> None:
        """Take the action in the block, and leave there what it led to."""
        assert self._block is not None
        block, i = self._block, self._index
        action = block.action[i].copy() if block.action.ndim > 1 else block.action[i]
        obs, reward, costs, terminated, truncated = self._read(self.env.step(action))
        self._elapsed += 1
        truncated = truncated or (self._cut_after is not None and self._elapsed >= self._cut_after)
        block.reward[i], block.costs[i], block.terminated[i], block.truncated[i] = reward, costs, terminated, truncated
        block.parts[i] = [self._parts.get(name, 0.0) for name in block.part_names]
        if (terminated or truncated) and not self._options.get("single"):
            self._write(obs, block.final_obs)
            self.reset(None)
        else:
            self._write(obs, block.obs)

    def frame(self) -> np.ndarray:
        """A picture [height, width, 3] of where it is."""
        takes_mode = "mode" in inspect.signature(self.env.render).parameters  # as with gym before 0.26
        picture = self.env.render(mode="rgb_array") if takes_mode else self.env.render()
        picture = picture[-1] if isinstance(picture, list) and picture else picture
        if not (isinstance(picture, np.ndarray) and picture.ndim == 3):
            raise Problem(f"{self.name} renders {short(picture)}, not pictures; is its render mode rgb_array?")
        return picture.astype(np.uint8)

    def close(self) -> None:
        self.env.close()

    def _read(self, values: Any) -> tuple[Any, float, np.ndarray, bool, bool]:
        if not isinstance(values, (tuple, list)):
            raise Problem(f"step of {self.name} must return {FIVE}, got {short(values)}")
        cost, info = {}, values[-1] if values else None
        if len(values) == 6:
            obs, reward, cost["cost"], terminated, truncated, _ = values
        elif len(values) == 5:
            obs, reward, terminated, truncated, _ = values
        elif len(values) == 4 and self._old:
            obs, reward, terminated, _ = values
            truncated = isinstance(info, dict) and terminated and info.get("TimeLimit.truncated", False)
            terminated = terminated and not truncated
        else:
            raise Problem(f"step of {self.name} must return {FIVE}, got {len(values)} values")
        if not isinstance(info, dict):
            raise Problem(f"step of {self.name} must return a dict as info, got {short(info)}")
        try:
            reward = float(reward)
        except (TypeError, ValueError):
            raise Problem(f"{self.name} must give a number as reward, got {short(reward)}") from None
        try:
            ends = bool(terminated), bool(truncated)
        except ValueError:
            got = f"{short(terminated)} and {short(truncated)}"
            raise Problem(f"{self.name} must give true or false as terminated and truncated, got {got}") from None
        self._parts = cost_parts(info)
        return (obs, reward, read_costs(self.name, {**cost, **info}, self._options), *ends)

    def _write(self, observation: Any, rows: list[np.ndarray]) -> None:
        try:
            arrays = list(read_leaves(self._observation, observation))
        except Problem as problem:
            raise Problem(f"{self.name} broke its observation space: {problem}") from None
        for row, array in zip(rows, arrays):
            row[self._index] = array

    def _max_step_cost(self) -> float | None:
        """The most that a step can cost, if the environment says so: then bounds of the expected cost exist."""
        value = getattr(getattr(self.env, "unwrapped", self.env), "max_step_cost", None)
        return None if value is None else float(value)

    def _time_limits(self) -> tuple[int | None, int | None]:
        """The steps of an episode, if it states them, and after how many this copy has to end it itself."""
        wrappers = [layer for layer in _layers(self.env) if "TimeLimit" in class_names(layer)]
        enforced = [int(layer._max_episode_steps) for layer in wrappers if layer._max_episode_steps is not None]
        cut = self._options["episode_length"]
        if cut is None and not enforced:
            cut = getattr(self._spec, "max_episode_steps", None)  # stated, but without a wrapper it would run on
        own = getattr(getattr(self.env, "unwrapped", self.env), "episode_length", None)  # it may say so itself
        limits = [*enforced, *(int(limit) for limit in (cut, own) if isinstance(limit, (int, np.integer)))]
        return (min(limits) if limits else None), cut


def _layers(env: Any) -> Iterator[Any]:
    """The environment and what it wraps."""
    while env is not None:
        yield env
        env = vars(env).get("env") if hasattr(env, "__dict__") else None


def _takes_seed(reset: Any) -> bool:
    try:
        parameters = inspect.signature(reset).parameters.values()
    except (TypeError, ValueError):  # written in C
        return True
    return any(p.name == "seed" or p.kind is p.VAR_KEYWORD for p in parameters)


def _raised_by_gym(error: BaseException) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return any(f"{os.sep}{package}{os.sep}" in frames[-1].filename for package in ("gymnasium", "gym"))
