"""What can go wrong with an environment, and where."""

from __future__ import annotations

from collections.abc import Sequence

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
        self._first = 0

    def at(self, first: int) -> Place:
        """The same for whoever has the environments from number `first` on, and counts them from 0."""
        other = Place(self.count)
        other.name, other._first = self.name, first
        return other

    def of(self, index: int) -> str:
        return f"{self.name}, environment {self._first + index} of {self.count}, at step {self.time} of its epoch"

    def short(self, index: int) -> str:
        return f"environment {self._first + index} of {self.count}, step {self.time} of its epoch"


class CopiesLost(WorkerDied):
    """Environments that were lost with their machine. The next reset makes them anew."""

    def __init__(self, place: Place, lost: Sequence[int]) -> None:
        which = f"environment {lost[0]}" if len(lost) == 1 else f"environments {', '.join(map(str, lost))}"
        super().__init__(
            f"{place.name}: {which} of {place.count} lost at step {place.time} of the epoch, with the machine or the "
            "process of Ray that ran them. The finished epochs are saved"
        )
