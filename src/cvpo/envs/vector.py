"""Environments that are vectorised already: any gymnasium.vector.VectorEnv, whenever it resets its episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from cvpo.envs.copies import Step
from cvpo.envs.errors import BadEnvironment, Place
from cvpo.envs.spaces import flatten
from cvpo.envs.worker.costs import is_part
from cvpo.envs.worker.problem import Problem, short
from cvpo.envs.worker.spaces import action_spec, observation_spec


class VectorCopies:
    """The environments of a VectorEnv.

    SAME_STEP: an ended environment has begun its next episode when the step returns; its last observation and info are
    apart. DISABLED: it is reset here. NEXT_STEP: its next step ignores the action and begins an episode: `Step.acted`
    tells.
    """

    def __init__(self, env: VectorEnv, options: dict[str, Any], place: Place, owned: bool) -> None:
        """owned: whether to close the VectorEnv in the end; one that was handed in stays open."""
        self.env, self._options, self._place, self._owned = env, options, place, owned
        self.count = place.count = int(env.num_envs)
        name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        try:
            self._mode = AutoresetMode(env.metadata["autoreset_mode"])
        except (KeyError, ValueError):
            raise BadEnvironment(
                f"{name} does not say when it begins the next episode: set metadata['autoreset_mode'] to one of "
                "gymnasium.vector.AutoresetMode"
            ) from None
        try:
            observation, action = observation_spec(env.single_observation_space), action_spec(env.single_action_space)
        except Problem as problem:
            raise BadEnvironment(f"{name}: {problem}") from None
        limits = [options["episode_length"], getattr(env.spec, "max_episode_steps", None)]
        self._limit = min((int(limit) for limit in limits if limit is not None), default=None)
        self.description: dict[str, Any] = {
            "name": name,
            "id": None if env.spec is None else env.spec.id,
            "observation": observation,
            "action": action,
            "time_limit": self._limit,
            "max_step_cost": getattr(env.unwrapped, "max_step_cost", None),
        }
        self._elapsed = np.zeros(self.count, int)
        self._begins = np.zeros(self.count, bool)  # whose next step begins an episode

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        each: Any = list(seeds)  # vector environments take a list too, whatever their types say
        obs, _ = self._pair(self.env.reset(seed=each))
        self._elapsed[:] = 0
        self._begins[:] = False
        return self._flat(obs)

    def step(self, action: np.ndarray) -> Step:
        values = self.env.step(action)
        if not (isinstance(values, tuple) and len(values) == 5):
            raise self._broken(f"step must return five values, got {short(values)}")
        obs, reward, terminated, truncated, infos = values
        acted = ~self._begins
        terminated, truncated = (
            self._flags("terminated", terminated) & acted,
            self._flags("truncated", truncated) & acted,
        )
        self._elapsed = np.where(acted, self._elapsed + 1, 0)
        finished = ended = terminated | truncated
        costs = np.where(acted[:, None], self._costs(infos, ended, acted), 0.0)
        reward = np.where(acted, self._numbers("reward", reward), 0.0)
        next_obs = obs = self._flat(obs)
        if self._mode is AutoresetMode.SAME_STEP and ended.any():
            next_obs = obs.copy()
            for i in np.flatnonzero(ended):
                next_obs[i] = flatten(self.description["observation"], infos["final_obs"][i])[0]
        elif self._mode is AutoresetMode.DISABLED:
            if self._limit is not None:
                ended |= self._elapsed >= self._limit
            if ended.any():
                obs = self._flat(self._pair(self.env.reset(options={"reset_mask": ended.copy()}))[0])
        elif self._mode is AutoresetMode.NEXT_STEP:
            self._begins = ended.copy()
        self._elapsed[ended] = 0
        if self._limit is not None:  # an episode that would run on is cut here: the caller's epoch ends with it
            ended = ended | (self._elapsed >= self._limit)
        reward, costs = reward.astype(np.float32), costs.astype(np.float32)
        return Step(obs, next_obs, reward, costs, terminated, ended, acted, self._parts(infos, finished))

    def waiting_for(self) -> int:
        return 0

    def close(self) -> None:
        if self._owned:
            self.env.close()

    def _costs(self, infos: dict[str, Any], ended: np.ndarray, acted: np.ndarray) -> np.ndarray:
        """Costs [N, m] of the step taken."""
        keys, count = self._options["cost_keys"], self._options["costs"]
        given = set(infos) | set(infos.get("final_info", {}))
        if not keys:
            plural = "costs" in given and (count > 1 or "cost" not in given)
            keys = ["costs" if plural else "cost"]
        columns = []
        for key in keys:
            if key not in given:
                if not self._options["cost_required"] or not acted.any():
                    return np.zeros((self.count, count))
                shown = sorted(name for name in given if not name.startswith("_"))
                raise self._broken(
                    f"no infos[{key!r}]; infos has {shown}. Put one number for each environment in infos['cost'], or "
                    "name the keys with cost_keys"
                )
            values = infos.get(key)
            if self._mode is AutoresetMode.SAME_STEP and ended.any() and key in infos.get("final_info", {}):
                # an ended environment has been reset already: its last info is kept apart
                final = np.asarray(infos["final_info"][key])
                mask = ended.reshape(-1, *[1] * (final.ndim - 1))
                values = final if values is None or ended.all() else np.where(mask, final, values)
            columns.append(self._numbers(f"cost {key!r}", values).reshape(self.count, -1))
        costs = np.concatenate(columns, axis=1)
        if costs.shape[1] != count:
            raise self._broken(
                f"{costs.shape[1]} costs but there are {count} limits; pass cost_limit with one number for each"
            )
        return costs

    def _parts(self, infos: dict[str, Any], ended: np.ndarray) -> dict[str, np.ndarray]:
        now, final = self._part_numbers(infos), self._part_numbers(infos.get("final_info", {}))
        if not infos.get("final_info"):
            return now
        zeros = np.zeros(self.count)
        return {name: np.where(ended, final.get(name, zeros), now.get(name, zeros)) for name in sorted({*now, *final})}

    def _part_numbers(self, infos: dict[str, Any]) -> dict[str, np.ndarray]:
        """[N] each: as `cost_parts` has it, numbers only; a text or a list is no part of a cost."""
        return {
            name: np.asarray(infos[name]) for name in sorted(filter(is_part, infos)) if self._is_numbers(infos[name])
        }

    def _is_numbers(self, values: Any) -> bool:
        try:
            array = np.asarray(values)
        except (TypeError, ValueError):  # lists of different lengths
            return False
        return array.shape == (self.count,) and array.dtype.kind in "biuf"

    def _numbers(self, what: str, values: Any) -> np.ndarray:
        try:
            array = np.asarray(values, np.float32)
        except (TypeError, ValueError):
            array = np.zeros(0, np.float32)
        if array.shape[:1] != (self.count,):
            raise self._broken(f"{what} must hold a number for each environment, got {short(values)}")
        return array

    def _flags(self, what: str, values: Any) -> np.ndarray:
        array = np.asarray(values)
        if array.shape != (self.count,):
            raise self._broken(f"{what} must hold true or false for each environment, got {short(values)}")
        return array.astype(bool)

    def _pair(self, values: Any) -> tuple[Any, Any]:
        if not (isinstance(values, tuple) and len(values) == 2):
            raise self._broken(f"reset must return (observations, infos), got {short(values)}")
        return values

    def _flat(self, obs: Any) -> np.ndarray:
        try:
            flat, batched = flatten(self.description["observation"], obs)
        except ValueError as error:
            raise self._broken(f"broke its observation space: {error}") from None
        if not batched or len(flat) != self.count:
            raise self._broken(f"gave {len(flat)} observations, not one for each of {self.count} environments")
        return flat

    def _broken(self, what: str) -> BadEnvironment:
        return BadEnvironment(f"{self.description['name']}: {what} (step {self._place.time} of its epoch)")
