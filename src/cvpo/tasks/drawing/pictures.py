"""What an environment shows: its picture, with what the episode has earned and cost so far."""

import numpy as np

from cvpo.tasks.drawing import topdown
from cvpo.tasks.drawing.camera import Camera
from cvpo.tasks.registry import Task
from cvpo.tasks.worlds import World


class Painter:
    """Remembers the episodes as they run, and draws them."""

    def __init__(self, task: Task, world: World, view: str, cost_limit: float):
        self._task, self._world, self._cost_limit = task, world, cost_limit
        self._camera = Camera(world.physics.model, world.extent, world.side_view) if view == "3d" else None
        num_envs = len(world.physics.state)
        self._trails: list[list[tuple[float, float, float]]] = [[] for _ in range(num_envs)]
        self._reward, self._cost = np.zeros(num_envs), np.zeros(num_envs)

    def begin(self, envs: np.ndarray) -> None:
        """Forget the episodes of `envs` [n]."""
        self._reward[envs] = self._cost[envs] = 0.0
        for env in envs.tolist():
            self._trails[env] = [(*self._world.pose(env)[:2], 0.0)]

    def record(self, rewards: np.ndarray, costs: np.ndarray) -> None:
        """Remember a step, rewards and costs [N]."""
        self._reward += rewards
        self._cost += costs
        for env, trail in enumerate(self._trails):
            trail.append((*self._world.pose(env)[:2], float(costs[env])))

    def pictures(self) -> tuple[np.ndarray, ...]:
        """One for each environment, [height, width, 3] bytes."""
        return tuple(self._picture(env) for env in range(len(self._trails)))

    def close(self) -> None:
        """Release the camera, if there is one."""
        if self._camera:
            self._camera.close()

    def _picture(self, env: int) -> np.ndarray:
        world = self._world
        data, marks = world.physics.snapshot(env), world.marks(env)
        if self._camera:
            middle = world.pose(env)[:2] if world.follows else (0.0, 0.0)
            return self._camera.picture(data, marks, middle)
        trail = self._trails[env]
        score = f"reward {self._reward[env]:.1f}    cost {self._cost[env]:.0f} of {self._cost_limit:g}"
        caption = (f"{self._task.name}    step {max(len(trail) - 1, 0)}", score)
        pose, model = world.pose(env), world.physics.model
        return topdown.draw(
            model, data, marks, pose, np.array(trail), world.extent, caption, follow=world.follows, side=world.side_view
        )
