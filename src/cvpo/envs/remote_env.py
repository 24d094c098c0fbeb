"""One environment of another interpreter as a gymnasium.Env: for films, and for whoever wants to look at it."""

from __future__ import annotations

import base64
from typing import Any

import gymnasium as gym
import numpy as np

from cvpo.envs.actions import ActionSpec
from cvpo.envs.errors import Place
from cvpo.envs.sources import Remote, for_worker
from cvpo.envs.spaces import ObservationSpec, assemble
from cvpo.envs.workers import WorkerCopies


class RemoteEnv(gym.Env):
    """It is in one worker process. Costs are not read: `info` is empty."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, source: Remote, render: bool = False) -> None:
        options = {"costs": 1, "cost_keys": [], "cost_required": False, "episode_length": None, "single": True}
        self.render_mode = "rgb_array" if render else None
        place = Place(1)
        place.name = source.env
        self._worker = WorkerCopies(for_worker(source), source.python, 1, options, place, None, render)
        self._spec = self._worker.description["observation"]
        self.observation_space = observation_space(self._spec)
        self.action_space = action_space(self._worker.description["action"])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._worker.ask([{"do": "reset", "seed": seed}])
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._worker.step(np.asarray(action)[None])
        block = self._worker.block
        return self._look(), float(block.reward[0]), bool(block.terminated[0]), bool(block.truncated[0]), {}

    def render(self) -> Any:
        if self.render_mode is None:
            return None
        (frame,) = self._worker.ask([{"do": "frame"}])
        return np.frombuffer(base64.b64decode(frame["bytes"]), np.uint8).reshape(frame["shape"])

    def close(self) -> None:
        self._worker.close()

    def _look(self) -> Any:
        return assemble(self._spec, [array[0].copy() for array in self._worker.block.obs])


def observation_space(spec: ObservationSpec) -> gym.Space:
    """A space that has this spec; the bounds are not part of it."""
    if "box" in spec:
        return gym.spaces.Box(-np.inf, np.inf, spec["box"], np.float32)
    if "image" in spec:
        return gym.spaces.Box(0, 255, spec["image"], np.uint8)
    if "one_hot" in spec:
        return gym.spaces.Discrete(spec["one_hot"], start=spec["start"])
    if "dict" in spec:
        return gym.spaces.Dict({key: observation_space(part) for key, part in spec["dict"]})
    return gym.spaces.Tuple([observation_space(part) for part in spec["tuple"]])


def action_space(spec: ActionSpec) -> gym.Space:
    if "low" in spec:
        low, high = (np.array(spec[end]).reshape(spec["shape"]).astype(spec["dtype"]) for end in ("low", "high"))
        return gym.spaces.Box(low, high, dtype=np.dtype(spec["dtype"]).type)
    if isinstance(spec["choices"], int):
        return gym.spaces.Discrete(spec["choices"], start=spec["start"])
    counts, start = (np.array(spec[key]).reshape(spec["shape"]) for key in ("choices", "start"))
    return gym.spaces.MultiDiscrete(counts, dtype=np.dtype(spec["dtype"]).type, start=start)
