"""N copies of an environment, each an actor of a Ray cluster whose machines have cvpo and the environment installed.

A machine that is lost takes its copies with it: `CopiesLost` says so, and the next `reset` makes them anew elsewhere.
Since all that happens in an epoch follows from its seeds, whoever begins the epoch again loses nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cvpo.envs.copies import Copies, Step, common_description
from cvpo.envs.errors import BadEnvironment, CopiesLost, EnvironmentFailed, Place
from cvpo.envs.hangs import too_late
from cvpo.envs.workers import DEFAULT_TIMEOUT
from cvpo.errors import Unavailable, UserError

MakeOne = Callable[[Place], Copies]


class RayCopies:
    """`address` is "auto" or "host:port" of a running cluster, or "local" for one that is started here and now."""

    def __init__(self, make: MakeOne, address: str, count: int, place: Place, timeout: float | None) -> None:
        """make: makes one copy, on the machine that it is called on."""
        self._ray = import_ray()
        self.count, self._make, self._place = count, make, place
        self._timeout = DEFAULT_TIMEOUT if timeout is None else timeout
        self._actors: list[Any] = [None] * count  # None: to be made
        self._waiting: list[Any] = []  # for answers of all actors
        self._started = _connect(self._ray, address)
        try:
            self._replace_lost()
        except BaseException:
            self.close()
            raise

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """Also makes anew what was lost, again and again: Ray may place it on a machine that is just about to go."""
        deadline = time.monotonic() + max(self._timeout, DEFAULT_TIMEOUT)
        while True:
            try:
                if None in self._actors:
                    self._replace_lost()
                return np.concatenate(self._ask("reset", [([seed],) for seed in seeds]))
            except CopiesLost:
                if time.monotonic() > deadline:
                    raise
            time.sleep(1.0)

    def step(self, action: np.ndarray) -> Step:
        steps: list[Step] = self._ask("step", [(action[i : i + 1], self._place.time) for i in range(self.count)])
        arrays: list[Any] = [np.concatenate(field) for field in list(zip(*steps, strict=True))[:-1]]
        names = sorted({name for step in steps for name in step.parts})
        parts = {name: np.concatenate([step.parts.get(name, np.zeros(1)) for step in steps]) for name in names}
        return Step._make([*arrays, parts])

    def waiting_for(self) -> int:
        done, _ = self._ray.wait(self._waiting, num_returns=self.count, timeout=0) if self._waiting else ([], [])
        return next((i for i, answer in enumerate(self._waiting) if answer not in done), 0)

    def close(self) -> None:
        for actor in filter(None, self._actors):
            self._ray.kill(actor)
        self._actors = [None] * self.count
        if self._started:
            self._ray.shutdown()
            self._started = False

    def _replace_lost(self) -> None:
        """Make the copies that there are none of, spread over the machines."""
        lost = [i for i, actor in enumerate(self._actors) if actor is None]
        # Where there are fewer CPUs than copies they share them. One that takes the place of a lost copy asks for none:
        # it must not wait until there is a machine again.
        share = self._ray.cluster_resources().get("CPU", 0.0) / self.count if len(lost) == self.count else 0.0
        cpus = min(1.0, int(1000 * share) / 1000)
        kind = self._ray.remote(num_cpus=cpus, scheduling_strategy="SPREAD", max_restarts=0)(Actor)
        for i in lost:
            self._actors[i] = kind.remote()
        arguments = [(self._make, self._place.at(i), [*sys.path, os.getcwd()]) for i in range(self.count)]
        # those that are there already only describe themselves again
        self.description = common_description(self._ask("make", arguments, max(self._timeout, DEFAULT_TIMEOUT)))

    def _ask(self, method: str, arguments: Sequence[tuple[Any, ...]], timeout: float | None = None) -> list[Any]:
        """Call a method of each actor and wait for all answers."""
        timeout = timeout or self._timeout
        deadline = time.monotonic() + timeout
        pairs = zip(self._actors, arguments, strict=True)
        self._waiting = [getattr(actor, method).remote(*its) for actor, its in pairs]
        answers = []
        for i, waiting in enumerate(self._waiting):
            try:
                answers.append(self._ray.get(waiting, timeout=max(0.0, deadline - time.monotonic())))
            except self._ray.exceptions.GetTimeoutError:
                raise too_late(self._place.of(self.waiting_for()), timeout) from None
            except self._ray.exceptions.RayActorError:
                with contextlib.suppress(self._ray.exceptions.RayError):  # if it is out of reach only
                    self._ray.kill(self._actors[i])
                self._actors[i] = None
        self._waiting = []
        for answer in answers:
            if isinstance(answer, UserError):
                raise answer
        if lost := [i for i, actor in enumerate(self._actors) if actor is None]:
            raise CopiesLost(self._place, lost)
        return answers


class Actor:
    """One copy on a machine of the cluster. What goes wrong is an answer too: only a machine that is lost is none."""

    def make(self, make: MakeOne, place: Place, path: list[str]) -> Any:
        if not hasattr(self, "_copies"):
            sys.path += [folder for folder in path if folder and folder not in sys.path]
            self._place = place
            made = self._answer(lambda: make(place))
            if isinstance(made, UserError):
                return made
            if made.count != 1:
                made.close()
                return BadEnvironment(
                    f"{made.description['name']} is a vector environment, which runs in the training process: leave "
                    "out envs_on_ray"
                )
            self._copies: Copies = made
            self._place.name = made.description["name"]
        return self._copies.description

    def reset(self, seeds: list[int]) -> Any:
        self._place.time = 0
        return self._answer(lambda: self._copies.reset(seeds))

    def step(self, action: np.ndarray, time: int) -> Any:
        self._place.time = time
        return self._answer(lambda: self._copies.step(action))

    def _answer(self, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except UserError as error:
            return type(error)(str(error))  # without its cause, which may not travel
        except BaseException as error:
            where, trace = self._place.of(0), traceback.format_exc()
            return EnvironmentFailed(f"{type(error).__name__}: {error}, raised by {where}:\n\n{trace}")


def _connect(ray: Any, address: str) -> bool:
    """Whether a connection was made, which then has to be closed."""
    if ray.is_initialized():
        return False
    # Ray would take the signal that asks a run to stop in order
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM) if main else None
    try:
        if address not in ("auto", "local"):
            _require_listener(address)
        ray.init(address=address, log_to_driver=False, **({"include_dashboard": False} if address == "local" else {}))
    except (OSError, ValueError) as error:
        raise Unavailable(f"no Ray cluster answers at {address!r}: {error}") from error
    if handler is not None:
        signal.signal(signal.SIGTERM, handler)
    return True


def _require_listener(address: str) -> None:
    """Fail at once where nobody listens: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not (host and port.isdigit()) or "://" in address:
        raise ValueError("it must be auto, local or host:port")
    socket.create_connection((host, int(port)), timeout=10.0).close()


def import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise Unavailable("Ray needs an extra, cvpo[ray]; in a clone: pip install '.[ray]'") from error
    return ray
