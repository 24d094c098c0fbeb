"""The training loop: collect an epoch, learn from it, evaluate, log, checkpoint; and again.

An epoch starts from environments reset with seeds that follow from (seed, epoch), and all randomness of the learner
follows from these too. So the end of an epoch is a whole state: the learner, the replay and a few counters. A run that
is resumed from it goes on bit for bit as if it had never stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from cvpo.algorithms.base import Scalars, Spec, State, Transition
from cvpo.algorithms.config import LoopConfig
from cvpo.algorithms.constraint import measured_cost
from cvpo.envs.adapter import Environments
from cvpo.envs.errors import CopiesLost
from cvpo.envs.rollout import Diverged, Progress, collect, episode_statistics, evaluate_policy
from cvpo.errors import BadValue
from cvpo.metric_names import per_cost
from cvpo.policies.files import PolicyWriter
from cvpo.runs.checkpoint import CheckpointStore
from cvpo.runs.directory import RunDirectory
from cvpo.runs.sinks import Sink
from cvpo.training import messages, own_data
from cvpo.training.display import COMPILING, Display
from cvpo.training.interrupts import Interrupted, Interrupts
from cvpo.training.learners import Learner
from cvpo.training.warm_start import learner_identity, warm_state

# Streams of environment seeds, so that training and evaluation never share one.
TRAIN, EVALUATE = 0, 1
# Losses of copies within an epoch, of which a machine may cause several: it goes bit by bit. More are the environment's
# own doing, which must not be tried for ever.
MOST_LOSSES = 5

Metrics = dict[str, Any]
T = TypeVar("T")


OnEpoch = Callable[[Metrics], str | None]


class Start(NamedTuple):
    """What a run starts from, if not from nothing."""

    learned: State = None  # of another run
    data: Transition | None = None  # epochs [P, H, N, ...] for the replay
    learn: bool = True  # from the data, before the first epoch


class Loop:
    """One run's loop over epochs."""

    def __init__(
        self,
        name: str,
        learner: Learner,
        config: LoopConfig,
        spec: Spec,
        environments: Environments,
        evaluations: Environments,
        directory: RunDirectory,
        seed: int,
        display: Display,
        interrupts: Interrupts,
    ) -> None:
        self._name, self._learner, self._config, self._spec = name, learner, config, spec
        self._environments, self._evaluations, self._directory = environments, evaluations, directory
        self._seed, self._display, self._interrupts = seed, display, interrupts
        self._key = jax.random.key(seed)
        self._compiled: set[str] = set()  # phases of an epoch that were gone through before
        self._times: Metrics = {}
        self._counters: Metrics = {"wall_seconds": 0.0, "cumulative_costs": [0.0] * spec.num_costs}
        self._policies = PolicyWriter(directory.path, learner.algorithm, name, config, spec, environments)

    def run(
        self,
        steps: int,
        make_sinks: Callable[[int], list[Sink]],
        start: Start | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> None:
        """Train from the newest checkpoint, or from the start, until `steps` or until `on_epoch` says stop."""
        epochs = epochs_of(steps, self._learner.epoch_steps)
        store = CheckpointStore(
            self._directory.checkpoints,
            learner_identity(self._name, self._spec, self._learner.envs),
            replay_epochs=self._learner.replay_epochs,
        )
        first = self._restore(store, epochs, start or Start())
        trained = first * self._learner.epoch_steps
        self._directory.set_steps(max(steps, trained))  # what is trained already stays trained
        self._directory.truncate_metrics(first - 1)
        self._announce(first, trained, steps)
        sinks = make_sinks(trained)
        began = time.monotonic() - self._counters["wall_seconds"]
        epoch, saved = first, first - 1
        try:
            for epoch in range(first, epochs):
                rollout = self._collect(epoch)
                info = self._learn(epoch, rollout)
                evaluated = self._evaluate(epoch, epochs)
                metrics = {
                    "epoch": epoch,
                    "steps": (epoch + 1) * self._learner.epoch_steps,
                    **self._count(rollout, began),
                    **self._episode_metrics("train", *episode_statistics(rollout)),
                    **evaluated,
                    **{name: float(value) for name, value in info.items()},
                    **self._times,
                }
                self._save(store, epoch, metrics, rollout)
                saved = epoch
                for sink in sinks:
                    sink.write(metrics)
                self._display.epoch(metrics)
                self._interrupts.check()
                if on_epoch is not None and asks_to_stop(on_epoch(dict(metrics))):
                    self._directory.set_steps(metrics["steps"])  # it is trained for no longer than that
                    self._display.message(f"stopped after epoch {epoch}, as on_epoch asked")
                    break
        except Interrupted as stop:
            source, cluster = self._environments.source, self._config.envs_on_ray
            hint = messages.resume_hint(self._directory.path, source, cluster)
            self._display.message(messages.stopped(str(stop), epoch, saved, hint))
            raise
        finally:
            for sink in sinks:
                sink.close()

    def _restore(self, store: CheckpointStore, epochs: int, start: Start) -> int:
        """The first epoch that is to be trained, with all that it starts from in place."""
        self._learner.begin(jax.random.fold_in(self._key, 0))
        checkpoint = store.load(self._learner.state, self._learner.segment_template)
        if checkpoint is None:
            self._directory.require_no_results()
            if start.learned is None and start.data is None:
                return 0
            fresh = jax.device_get(self._learner.state)
            if start.learned is not None:
                self._learner.restore(warm_state(fresh, start.learned), ())
            if start.data is not None:
                own_data.keep(self._directory.checkpoints, start.data)
                self._take(start)
                # Data are no episodes of this policy, and not even whole ones: controllers begin with the run's own.
                self._learner.restore(warm_state(fresh, jax.device_get(self._learner.state)), ())
            return 0
        self._counters = checkpoint.counters
        if checkpoint.epoch + 1 < epochs:
            if start.data is not None:
                self._take(start._replace(learn=False))
            self._learner.restore(checkpoint.learner, checkpoint.segments())
        return checkpoint.epoch + 1

    def _take(self, start: Start) -> None:
        """The data that the run starts with."""
        assert start.data is not None
        with self._phase("learn") as progress:
            self._learner.start_with(start.data, start.learn, jax.random.fold_in(self._key, 2**31 - 1), progress)

    def _announce(self, first: int, trained: int, steps: int) -> None:
        for line in (self._learner.algorithm.describe(), f"run directory: {self._directory.path}"):
            if line:
                self._display.message(line)
        if trained >= steps:
            self._display.message(f"the run has {trained:,} steps already; ask for more (--steps) to continue it")
        elif first:
            self._display.message(f"resuming after epoch {first - 1}")
            self._display.resume(first - 1, trained, self._counters["wall_seconds"])

    def _collect(self, epoch: int) -> Transition:
        learner, (key, _) = self._learner, _keys(self._key, epoch)
        seeds, noise = self._seeds(TRAIN, epoch, learner.envs), learner.noise(epoch, key)
        with self._phase("collect") as progress:
            return self._again_if_lost(
                lambda: collect(self._environments, learner.acting(epoch), learner.policy, noise, seeds, progress)
            )

    def _learn(self, epoch: int, rollout: Transition) -> Scalars:
        _, key = _keys(self._key, epoch)
        with self._phase("learn") as progress:
            info = self._learner.learn(epoch, rollout, key, progress)
            if not all(np.isfinite(x).all() for x in jax.tree.leaves(jax.device_get(self._learner.policy))):
                raise Diverged(f"the policy after the updates of epoch {epoch}")
            return info

    def _evaluate(self, epoch: int, epochs: int) -> Metrics:
        if (epoch + 1) % self._config.eval_every and epoch != epochs - 1:
            self._times["time/evaluate"] = 0.0
            return {}
        learner, seeds = self._learner, self._seeds(EVALUATE, epoch, self._config.eval_episodes)
        with self._phase("evaluate") as progress:
            evaluated = self._again_if_lost(
                lambda: evaluate_policy(self._evaluations, learner.act, learner.policy, seeds, progress)
            )
        return self._episode_metrics("eval", *evaluated)

    def _again_if_lost(self, run: Callable[[], T]) -> T:
        """What `run` gives, begun anew when a machine of the cluster was lost: it follows from the seeds alone."""
        for _ in range(MOST_LOSSES):
            try:
                return run()
            except CopiesLost as lost:
                self._display.message(f"{lost}. They are made anew and the episodes begun again")
        return run()

    def _count(self, rollout: Transition, began: float) -> Metrics:
        """Bring the counters up to date; what the log says of them."""
        spent = rollout.costs.sum((0, 1), dtype=np.float64)
        totals = [a + float(b) for a, b in zip(self._counters["cumulative_costs"], spent, strict=True)]
        self._counters = {"wall_seconds": time.monotonic() - began, "cumulative_costs": totals}
        return {
            "wall_seconds": self._counters["wall_seconds"],
            **self._per_cost("train/cumulative_cost", totals),
        }

    def _save(self, store: CheckpointStore, epoch: int, metrics: Metrics, rollout: Transition) -> None:
        """The checkpoint last: what is written without it is written again on resuming, with it never."""
        learner = self._learner
        self._directory.append_metrics(metrics)
        self._policies.write(learner.policy, epoch)
        segment = rollout if learner.replay_epochs else None
        store.save(epoch, jax.device_get(learner.state), self._counters, segment)

    @contextmanager
    def _phase(self, name: str) -> Iterator[Progress]:
        """Show and time a part of an epoch. The first of its kind compiles until it reports any progress."""

        def progress(fraction: float) -> None:
            self._display.phase(name, fraction)
            self._interrupts.check()

        self._interrupts.check()
        self._display.phase(*((name, 0.0) if name in self._compiled else (COMPILING, None)))
        self._compiled.add(name)
        began = time.monotonic()
        yield progress
        self._times[f"time/{name}"] = time.monotonic() - began

    def _seeds(self, stream: int, epoch: int, count: int) -> np.ndarray:
        return np.random.SeedSequence([self._seed, stream, epoch]).generate_state(count)

    def _episode_metrics(self, prefix: str, reward: np.ndarray, costs: np.ndarray, length: np.ndarray) -> Metrics:
        return {
            f"{prefix}/episodes": len(reward),
            f"{prefix}/reward": float(reward.mean()),
            f"{prefix}/reward_std": float(reward.std()),
            f"{prefix}/length": float(length.mean()),
            **self._per_cost(f"{prefix}/cost", costs.mean(0)),
            **self._per_cost(f"{prefix}/cost_std", costs.std(0)),
            **self._constrained(f"{prefix}/constrained_cost", costs),
        }

    def _constrained(self, name: str, costs: np.ndarray) -> Metrics:
        """The statistic that the limit is on, if that is not the mean."""
        constraint = getattr(self._config, "constraint", "mean")
        return {} if constraint == "mean" else self._per_cost(name, measured_cost(constraint, costs))

    def _per_cost(self, name: str, values: Any) -> Metrics:
        """One value as `name`, several as `name_0`, `name_1`, ..."""
        return {key: float(value) for key, value in per_cost(name, values).items()}


@jax.jit
def _keys(key: jax.Array, epoch: int) -> tuple[jax.Array, jax.Array]:
    """Of what is random in an epoch of a run: one for collecting, one for learning."""
    collecting, learning = jax.random.split(jax.random.fold_in(key, epoch + 1))
    return collecting, learning


def asks_to_stop(answer: str | None) -> bool:
    if answer not in (None, "stop"):
        raise BadValue(f'on_epoch returns "stop" or nothing, got {answer!r}')
    return answer == "stop"


def epochs_of(steps: int, epoch_steps: int) -> int:
    """Whole epochs that so many steps take."""
    return math.ceil(steps / epoch_steps)
