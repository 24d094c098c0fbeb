"""The built-in tasks; importing this package registers their Gymnasium ids."""

import gymnasium

from cvpo.tasks.table import PAPER_TASKS, TASKS, Task, groups, listing

__all__ = ["PAPER_TASKS", "TASKS", "Task", "groups", "listing"]

for _task in TASKS.values():
    gymnasium.register(
        id=_task.id,
        entry_point="cvpo.tasks.single_env:TaskEnv",
        vector_entry_point="cvpo.tasks.vector_env:TaskVectorEnv",
        kwargs={"task": _task.name},
    )
