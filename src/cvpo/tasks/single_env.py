"""The single environment: the vector environment of one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from cvpo.tasks.registry import Task
from cvpo.tasks.vector_env import TaskVectorEnv


class TaskEnv(gymnasium.Env):
    """One environment of a built-in task; the options are those of `TaskVectorEnv`."""

    max_step_cost = TaskVectorEnv.max_step_cost
    metadata = {"render_modes": TaskVectorEnv.metadata["render_modes"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, task: str | Path | Mapping[str, Any] | Task, **options: Any):
        self.vector = TaskVectorEnv(task, 1, **options)
        self.metadata = {
            "render_modes": self.metadata["render_modes"],
            "render_fps": self.vector.metadata["render_fps"],
        }
        self.task = self.vector.task
        self.episode_length = self.task.episode_length
        self.render_mode = self.vector.render_mode
        self.observation_space = self.vector.single_observation_space
        self.action_space = self.vector.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode; `seed=None` lets the generator run on."""
        super().reset(seed=seed)
        observations, infos = self.vector.reset(seed=seed)
        # Gymnasium's checks compare generators, which those of the legacy stream do not let them do
        if not self.vector.legacy_stream:
            self._np_random = self.vector.rngs[0]
        return observations[0], infos

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Step under `action`; after the last step of an episode, call `reset`."""
        observations, rewards, terminated, truncated, infos = self.vector.transition(np.asarray(action)[None])
        info = {key: value[0].item() for key, value in infos.items()}
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self) -> np.ndarray | None:
        """The picture of the present moment, [height, width, 3] bytes; None without a render mode."""
        frames = self.vector.render()
        return None if frames is None else frames[0]

    def close(self) -> None:
        """Stop the physics' threads."""
        self.vector.close()
