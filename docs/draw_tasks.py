"""Draw the pictures of docs/tasks.md: `python docs/draw_tasks.py`. A simple driver plays each task for a few steps."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
from PIL import Image

import cvpo  # noqa: F401  (registers the tasks)

IMAGES = Path(__file__).parent / "images"

# name of the picture, id, seed and steps
PICTURES = [
    ("car-circle", "cvpo/CarCircle-v0", 0, 130),
    ("point-goal", "cvpo/PointGoal-v0", 0, 60),
    ("car-goal", "cvpo/CarGoal-v0", 0, 80),
    ("point-button", "cvpo/PointButton-v0", 0, 60),
    ("car-button", "cvpo/CarButton-v0", 0, 80),
    ("safety-pointgoal2", "cvpo/SafetyPointGoal2-v0", 0, 60),
    ("safety-carbutton1", "cvpo/SafetyCarButton1-v0", 0, 60),
    ("safety-pointpush2", "cvpo/SafetyPointPush2-v0", 0, 60),
    ("safety-carcircle2", "cvpo/SafetyCarCircle2-v0", 0, 120),
    ("safety-pointrun0", "cvpo/SafetyPointRun0-v0", 1, 60),
    ("safety-halfcheetahvelocity", "cvpo/SafetyHalfCheetahVelocity-v1", 0, 30),
    ("safety-walker2dvelocity", "cvpo/SafetyWalker2dVelocity-v1", 0, 8),
    ("safety-antvelocity", "cvpo/SafetyAntVelocity-v1", 0, 30),
    ("safety-humanoidvelocity", "cvpo/SafetyHumanoidVelocity-v1", 0, 8),
]


def drive(task: str, observation: np.ndarray, shape: tuple[int, ...], time: int) -> np.ndarray:
    """Around the circle at full throttle; elsewhere forward, with a slow wave in the last action."""
    if task == "cvpo/CarCircle-v0":
        (x, y), (sine, cosine) = 10 * observation[:2], observation[4:6]
        outside = np.hypot(x, y) - 7
        target = np.arctan2(-x, y) - 0.4 * np.clip(outside, -3, 3)  # the clockwise tangent, turned towards the circle
        error = target - np.arctan2(sine, cosine)
        return np.array([1.0, np.clip(2 * np.arctan2(np.sin(error), np.cos(error)), -1, 1)])
    action = np.full(shape, 0.6)
    action[-1] = 0.6 * np.cos(time / 12) if "Velocity" not in task else -0.6
    return action


def main() -> None:
    for name, task, seed, steps in PICTURES:
        env = gymnasium.make(task, render_mode="rgb_array")
        observation, _ = env.reset(seed=seed)
        for time in range(steps):
            observation, *_ = env.step(drive(task, observation, env.action_space.shape, time))
        Image.fromarray(env.render()).quantize(64).save(IMAGES / f"task-{name}.png", optimize=True)
        env.close()


if __name__ == "__main__":
    main()
