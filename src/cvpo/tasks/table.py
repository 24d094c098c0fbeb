"""The table of the built-in tasks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """A task as users see it.

    Attributes:
      name: public name, such as "Point-Goal".
      id: Gymnasium id.
      cost_limit: the limit on an episode's summed cost used by the paper.
      episode_length: steps per episode; every episode ends by time alone.
      observation_size, action_size: lengths of the two vectors.
      description: one line.
    """

    name: str
    id: str
    cost_limit: float
    episode_length: int
    observation_size: int
    action_size: int
    description: str


_GOAL = "press the marked button, again and again, around fixed hazards and the other buttons"
_BUTTON = "press the marked button, again and again, while boxes circle between the buttons"
_CIRCLE = "run clockwise round a circle that leaves the safe zone |x| <= 6"

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("Car-Circle", "cvpo/CarCircle-v0", 20.0, 300, 8, 2, f"Race car: {_CIRCLE}"),
        Task("Point-Goal", "cvpo/PointGoal-v0", 10.0, 400, 60, 2, f"Point: {_GOAL}"),
        Task("Car-Goal", "cvpo/CarGoal-v0", 10.0, 400, 72, 2, f"Two-wheel car: {_GOAL}"),
        Task("Point-Button", "cvpo/PointButton-v0", 10.0, 400, 76, 2, f"Point: {_BUTTON}"),
        Task("Car-Button", "cvpo/CarButton-v0", 10.0, 400, 88, 2, f"Two-wheel car: {_BUTTON}"),
    )
}


def find_task(env: object) -> Task | None:
    """The built-in task that a name or a Gymnasium id stands for."""
    return next((task for task in TASKS.values() if env in (task.name, task.id)), None)
