"""Constrained variational policy optimization: policies that maximise reward within a cost limit."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import cvpo.tasks  # noqa: F401  (registers the built-in tasks with Gymnasium)
from cvpo.errors import UserError
from cvpo.tasks import TASKS

if TYPE_CHECKING:
    from cvpo.algorithms.cvpo.estep.solve import EStep, solve_estep
    from cvpo.envs.sources import remote
    from cvpo.policies.evaluate import compare, evaluate
    from cvpo.policies.export import export
    from cvpo.policies.inspect import inspect
    from cvpo.policies.policy import Policy, load
    from cvpo.policies.record import Demonstrations
    from cvpo.policies.render import render
    from cvpo.training.train import Run, train

__version__ = "0.1.0"

__all__ = [
    "TASKS",
    "Demonstrations",
    "EStep",
    "Policy",
    "Run",
    "UserError",
    "compare",
    "evaluate",
    "export",
    "inspect",
    "load",
    "remote",
    "render",
    "solve_estep",
    "train",
]

# Loaded on first use: reading a report or listing tasks should not wait for JAX.
_HOME = {
    "Demonstrations": "cvpo.policies.record",
    "EStep": "cvpo.algorithms.cvpo.estep.solve",
    "Policy": "cvpo.policies.policy",
    "Run": "cvpo.training.train",
    "compare": "cvpo.policies.evaluate",
    "evaluate": "cvpo.policies.evaluate",
    "export": "cvpo.policies.export",
    "inspect": "cvpo.policies.inspect",
    "load": "cvpo.policies.policy",
    "remote": "cvpo.envs.sources",
    "render": "cvpo.policies.render",
    "solve_estep": "cvpo.algorithms.cvpo.estep.solve",
    "train": "cvpo.training.train",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'cvpo' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
