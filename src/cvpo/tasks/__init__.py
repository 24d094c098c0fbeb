"""The built-in tasks; importing this package registers their Gymnasium ids."""

import gymnasium

from cvpo.tasks.registry import DESCRIBED_ID, PAPER_TASKS, TASKS, Task, groups, listing

__all__ = ["PAPER_TASKS", "TASKS", "Task", "groups", "listing"]

for _id, _arguments in [*((task.id, {"task": task.name}) for task in TASKS.values()), (DESCRIBED_ID, {})]:
    gymnasium.register(
        id=_id,
        entry_point="cvpo.tasks.single_env:TaskEnv",
        vector_entry_point="cvpo.tasks.vector_env:TaskVectorEnv",
        kwargs=_arguments,
    )
