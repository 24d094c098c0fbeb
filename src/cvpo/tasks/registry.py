"""Every built-in task by name, and how a name or a description finds its task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cvpo.errors import BadValue, did_you_mean
from cvpo.tasks.described import is_description, read, to_dict
from cvpo.tasks.description import NavigationTask
from cvpo.tasks.paper import PAPER
from cvpo.tasks.runners import RUNNERS, Runner
from cvpo.tasks.safety_gym import SAFETY_GYM

DESCRIBED_ID = "cvpo/Navigation-v0"
GROUPS = {
    "paper": "The paper's tasks",
    "navigation": "Safety Gym: navigation",
    "velocity": "Safety Gym: velocity",
}
_OWN = "described"
_VELOCITY_LIMIT, _VELOCITY_STEPS = 25.0, 1000


@dataclass(frozen=True)
class Task:
    """A task as users see it.

    Attributes:
      name: public name, such as "Point-Goal".
      id: Gymnasium id.
      cost_limit: the limit on an episode's summed cost: the paper's, or 25 as in published tables.
      episode_length: steps per episode, if nothing ends it earlier.
      observation_size, action_size: lengths of the two vectors.
      description: one line.
      group: a name in `GROUPS`, or "described" for a task of a user's own.
      rules: what makes the task's world; None: the paper's Car-Circle.
    """

    name: str
    id: str
    cost_limit: float
    episode_length: int
    observation_size: int
    action_size: int
    description: str
    group: str = "paper"
    rules: NavigationTask | Runner | None = field(default=None, repr=False)

    @property
    def source(self) -> str:
        """The text that finds the task again: its name, or the whole description of a user's own."""
        return self.name if self.group != _OWN else json.dumps(self.options["task"])

    @property
    def options(self) -> dict[str, Any]:
        """What Gymnasium's `make` needs beside the id."""
        if self.group != _OWN:
            return {}
        assert isinstance(self.rules, NavigationTask)
        return {"task": to_dict(self.name, self.rules)}


def _navigation(name: str, id: str, rules: NavigationTask, group: str) -> Task:
    size = rules.observation_size
    return Task(name, id, rules.cost_limit, rules.episode_length, size, 2, rules.summary, group, rules)


def _velocity(robot: str, rules: Runner) -> Task:
    name = f"Safety{robot}Velocity"
    summary = f"{robot}: run forward, not faster than {rules.speed_limit:g} m/s"
    sizes = rules.observation_size, rules.action_size
    return Task(name, f"cvpo/{name}-v1", _VELOCITY_LIMIT, _VELOCITY_STEPS, *sizes, summary, "velocity", rules)


_CIRCLE = "Race car: run clockwise round a circle that leaves the safe zone |x| <= 6"

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("Car-Circle", "cvpo/CarCircle-v0", 20.0, 300, 8, 2, _CIRCLE),
        *(_navigation(name, f"cvpo/{name.replace('-', '')}-v0", rules, "paper") for name, rules in PAPER.items()),
        *(_navigation(name, f"cvpo/{name}-v0", rules, "navigation") for name, rules in SAFETY_GYM.items()),
        *(_velocity(robot, rules) for robot, rules in RUNNERS.items()),
    )
}
PAPER_TASKS = {name: task for name, task in TASKS.items() if task.group == "paper"}

_BY_NAME = {name: task for task in TASKS.values() for name in (task.name, task.id)}
# Safety-Gymnasium's own ids, such as "SafetyPointGoal1-v0"
_BY_NAME |= {task.id.removeprefix("cvpo/"): task for task in TASKS.values() if task.group != "paper"}


def find_task(env: object) -> Task | None:
    """The task that a name or a Gymnasium id stands for, or that a dict, JSON or a TOML file describes."""
    if isinstance(env, str) and env in _BY_NAME:
        return _BY_NAME[env]
    if not is_description(env):
        return None
    name, rules = read(env)  # type: ignore[arg-type]
    if name in _BY_NAME:
        raise BadValue(f"name must be another than that of a built-in task, got {name!r}")
    return _navigation(name, DESCRIBED_ID, rules, _OWN)


def as_task(task: str | Path | Mapping[str, Any] | Task) -> Task:
    """The task, by its name or description if need be."""
    found = task if isinstance(task, Task) else find_task(task)
    if found is None:
        raise BadValue(f"no task {task!r}{did_you_mean(str(task), TASKS)}")
    return found


def groups() -> dict[str, list[Task]]:
    """The built-in tasks by the titles of their groups."""
    return {title: [task for task in TASKS.values() if task.group == group] for group, title in GROUPS.items()}


def listing() -> str:
    """The built-in tasks as a text for a terminal, group by group."""
    lines = []
    for title, tasks in groups().items():
        lines.append(f"{title:<28}{'id':<34}{'obs':>4}{'act':>4}{'steps':>6}{'limit':>6}")
        for task in tasks:
            sizes = f"{task.observation_size:>4}{task.action_size:>4}{task.episode_length:>6}{task.cost_limit:>6g}"
            lines.append(f"{task.name:<28}{task.id:<34}{sizes}")
            lines.append(f"    {task.description}")
        lines.append("")
    return "\n".join(lines).rstrip()
