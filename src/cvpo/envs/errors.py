"""What can go wrong with an environment, and where."""

from __future__ import annotations

from cvpo.errors import BadValue, UserError


class BadEnvironment(BadValue):
    """An environment that cannot be learned from, with the reason and the remedy."""


class EnvironmentFailed(UserError, RuntimeError):
    """An exception in an environment that runs in another process; its traceback is part of the message."""


class WorkerDied(UserError, RuntimeError):
    """The process of an environment is gone."""


class EnvironmentTimeout(UserError, TimeoutError):
    """An environment that did not answer in time."""


class Place:
    """Where in a rollout the environments are, for messages."""

    def __init__(self, count: int) -> None:
        self.name, self.count, self.time = "the environment", count, 0

    def of(self, index: int) -> str:
        return f"{self.name}, environment {index} of {self.count}, at step {self.time} of its epoch"
