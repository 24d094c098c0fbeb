import mujoco
import numpy as np
import pytest

from cvpo.tasks import PAPER_TASKS, TASKS
from cvpo.tasks.vector_env import TaskVectorEnv

# The arena: the corners of Car-Circle's walls, or the floor around the other tasks' objects. Safety Gym's has no end.
REACH = {task: 10.0 / np.cos(np.pi / 8) if task == "Car-Circle" else 10.0 for task in PAPER_TASKS}
# The fullest level of each task, for each robot.
FULLEST = [name for name in TASKS if name.endswith(("Goal2", "Button2", "Push2", "Circle2", "Run0", "Velocity"))]


@pytest.mark.slow
@pytest.mark.parametrize("task", [*PAPER_TASKS, *FULLEST])
def test_200_000_random_steps(task):
    complaints = []
    mujoco.set_mju_user_warning(complaints.append)
    try:
        env = TaskVectorEnv(task, 40)
        obs, _ = env.reset(seed=0)
        rng = np.random.default_rng(0)
        low, high = env.world.action_range
        farthest = 0.0
        for _ in range(200_000 // 40):
            obs, reward, _, _, infos = env.step(rng.uniform(low, high, (40, len(low))))
            assert np.isfinite(obs).all() and np.isfinite(reward).all()
            assert np.isin(infos["cost"], (0.0, 1.0)).all()
            farthest = max(farthest, np.abs(env.world.physics.qpos[:, :2]).max())
    finally:
        mujoco.set_mju_user_warning(None)
    assert not complaints
    assert farthest < REACH.get(task, np.inf)
