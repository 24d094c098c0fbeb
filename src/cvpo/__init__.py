"""Constrained variational policy optimization: policies that maximise reward within a cost limit."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import cvpo.envs  # noqa: F401  (registers the built-in tasks with Gymnasium)

if TYPE_CHECKING:
    from cvpo.envs import TASKS
    from cvpo.evaluation import evaluate
    from cvpo.ops.estep import EStep, solve_estep
    from cvpo.policy import Policy, load
    from cvpo.training import Run, train

__all__ = ["TASKS", "EStep", "Policy", "Run", "evaluate", "load", "solve_estep", "train"]

# Loaded on first use: reading a report or listing tasks should not wait for JAX.
_HOME = {
    "TASKS": "cvpo.envs",
    "EStep": "cvpo.ops.estep",
    "Policy": "cvpo.policy",
    "Run": "cvpo.training",
    "evaluate": "cvpo.evaluation",
    "load": "cvpo.policy",
    "solve_estep": "cvpo.ops.estep",
    "train": "cvpo.training",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'cvpo' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
