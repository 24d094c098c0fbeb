"""The vector environment: episodes, seeds and Gymnasium's interface around a task's worlds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from cvpo.errors import BadValue
from cvpo.tasks.drawing.pictures import Painter
from cvpo.tasks.generators import make_generator, pack_generator, unpack_generator
from cvpo.tasks.registry import Task, as_task
from cvpo.tasks.worlds import draws_as_safety_gym, make_world

_PLACES = ("fixed", "random")
_VIEWS = ("top", "3d")


class TaskVectorEnv(VectorEnv):
    """N environments of one built-in task, their physics stepped by one call.

    An environment whose episode ends is reset in the same step: the last observation is in `infos["final_obs"]`, the
    last info in `infos["final_info"]`. `infos["cost"]` [N] and its parts always belong to the step taken, as the reward
    does.
    """

    max_step_cost = 1.0  # a step costs 1 or nothing, whatever was touched in it
    metadata = {  # noqa: RUF012
        "render_modes": ["rgb_array"],
        "render_fps": 10,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        task: str | Path | Mapping[str, Any] | Task,
        num_envs: int = 1,
        *,
        start: str = "fixed",
        layout: str = "fixed",
        threads: int = 1,
        render_mode: str | None = None,
        view: str = "top",
        shown_limit: float | None = None,
    ):
        """Make the environments.

        Args:
          task: a task, its name, or a description: a dict, JSON or the path of a TOML file.
          num_envs: N.
          start: "random" draws the robot's place at each reset (the paper's Goal and Button).
          layout: "random" draws the places of all objects at each reset (the paper's Goal and Button).
          threads: threads that share the physics; the results do not depend on it.
          render_mode: "rgb_array" or None.
          view: "top" draws from above without any graphics library; "3d" is MuJoCo's own picture and needs OpenGL.
          shown_limit: the cost limit that the view from above names; the task's own if not given.
        """
        if num_envs < 1:
            raise BadValue(f"num_envs must be at least 1, got {num_envs}")
        choices = (("start", start, _PLACES), ("layout", layout, _PLACES), ("view", view, _VIEWS))
        for option, value, known in choices:
            if value not in known:
                raise BadValue(f"{option} must be one of {known}, got {value!r}")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise BadValue(f"render_mode must be None or one of {self.metadata['render_modes']}, got {render_mode!r}")
        self.task = as_task(task)
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (self.task.observation_size,), np.float32)
        self.legacy_stream = draws_as_safety_gym(self.task)
        self.rngs = [make_generator(None, self.legacy_stream) for _ in range(num_envs)]
        self.world = make_world(self.task, self.rngs, threads, start=start, layout=layout)
        low, high = self.world.action_range.astype(np.float32)
        self.single_action_space = spaces.Box(low, high, dtype=np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.metadata = {**self.metadata, "render_fps": round(1 / self.world.step_seconds)}
        self._elapsed = np.zeros(num_envs, dtype=np.int64)
        self._started = False
        limit = self.task.cost_limit if shown_limit is None else shown_limit
        self._painter = Painter(self.task, self.world, view, limit) if render_mode else None

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin new episodes, in all environments or where `options["reset_mask"]` [N] is true.

        `seed` gives environment i the seed `seed + i`, or the i-th of a sequence; None lets its generator run on.
        """
        envs = np.arange(self.num_envs)
        if options is not None and "reset_mask" in options:
            envs = np.flatnonzero(self._checked_mask(options["reset_mask"]))
        if seed is None or isinstance(seed, int | np.integer):
            seeds = [None if seed is None else int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise BadValue(f"a sequence of seeds needs one per environment: {self.num_envs}, got {len(seeds)}")
        for env in envs.tolist():
            if seeds[env] is not None:
                self.rngs[env] = make_generator(seeds[env], self.legacy_stream)
        if not self._started and len(envs) < self.num_envs:
            raise BadValue("the first reset must be of all environments: leave reset_mask out")
        self._begin(envs)
        return self.world.observe(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all environments under `actions` [N, a]; those whose episode ends begin the next one."""
        observations, rewards, terminated, truncated, infos = self.transition(actions)
        ended = terminated | truncated
        if ended.any():
            final_obs = np.full(self.num_envs, None, dtype=object)
            final_info: dict[str, Any] = {}
            for env in np.flatnonzero(ended):
                final_obs[env] = observations[env].copy()
            for key, value in infos.items():
                final_info[key] = np.where(ended, value, np.zeros_like(value))
                final_info[f"_{key}"] = ended.copy()
            self._begin(np.flatnonzero(ended))
            observations = self.world.observe()
            infos |= {
                "final_obs": final_obs,
                "_final_obs": ended.copy(),
                "final_info": final_info,
                "_final_info": ended.copy(),
            }
        return observations, rewards, terminated, truncated, infos

    def transition(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """A step that leaves an ended episode at its end, for a caller that resets by itself."""
        if not self._started:
            raise RuntimeError("call reset() before step()")
        rewards, terminated, infos = self.world.advance(self._checked_actions(actions))
        self._elapsed += 1
        truncated = self._elapsed >= self.task.episode_length
        if self._painter:
            self._painter.record(rewards, infos["cost"])
        return self.world.observe(), rewards, terminated, truncated & ~terminated, infos

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """Each environment's generator, as in Gymnasium's own vector environments."""
        return tuple(self.rngs)

    def get_state(self) -> dict[str, np.ndarray]:
        """The environments' whole state, generators included, as numeric arrays."""
        return {
            **self.world.get_state(),
            "elapsed": self._elapsed.copy(),
            "rng": np.array([pack_generator(rng) for rng in self.rngs]),
        }

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Continue exactly from what `get_state` returned, of this or of an equally made environment."""
        if len(state["elapsed"]) != self.num_envs:
            raise BadValue(
                f"this state is of {len(state['elapsed'])} environments, but there are {self.num_envs}: "
                f"make the environment with num_envs={len(state['elapsed'])}"
            )
        self._elapsed[:] = state["elapsed"]
        for rng, packed in zip(self.rngs, state["rng"], strict=True):
            unpack_generator(rng, packed)
        self.world.set_state(state)
        self._started = True

    def render(self) -> tuple[np.ndarray, ...] | None:
        """A picture of each environment, [height, width, 3] bytes; None without a render mode."""
        return self._painter.pictures() if self._painter else None

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the physics' threads."""
        self.world.physics.close()
        if self._painter:
            self._painter.close()

    def _begin(self, envs: np.ndarray) -> None:
        self.world.begin(envs)
        self._elapsed[envs] = 0
        self._started = True
        if self._painter:
            self._painter.begin(envs)

    def _checked_actions(self, actions: np.ndarray) -> np.ndarray:
        actions = np.asarray(actions, dtype=float)
        shape = (self.num_envs, self.task.action_size)
        if actions.shape != shape:
            raise BadValue(f"actions must have shape {shape}, got {actions.shape}")
        if np.isnan(actions.min()):
            env = int(np.isnan(actions).any(axis=1).argmax())
            raise BadValue(f"actions must be numbers, got {actions[env].tolist()} for environment {env}")
        return actions

    def _checked_mask(self, mask: Any) -> np.ndarray:
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise BadValue(f"reset_mask must be a boolean array of shape ({self.num_envs},), got {mask!r}")
        if not mask.any():
            raise BadValue("reset_mask must choose at least one environment, got none")
        return mask
