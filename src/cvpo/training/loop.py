"""The training loop: collect an epoch, learn from it, evaluate, log, checkpoint; and again.

An epoch starts from environments reset with seeds that follow from (seed, epoch), and all randomness of the learner
follows from these too. So the end of an epoch is a whole state: the learner, the replay and a few counters. A run that
is resumed from it goes on bit for bit as if it had never stopped.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cvpo.algorithms.base import Algorithm, Scalars, Spec, State, Transition, UpdateMetrics
from cvpo.algorithms.config import LoopConfig, OffPolicyConfig
from cvpo.envs.adapter import Environments
from cvpo.envs.rollout import Diverged, collect, episode_statistics, evaluate_policy, make_act, make_random_act
from cvpo.metric_names import per_cost
from cvpo.policies.policy import save_policy
from cvpo.runs.checkpoint import CheckpointStore
from cvpo.runs.directory import RunDirectory
from cvpo.runs.sinks import Sink
from cvpo.training import replay
from cvpo.training.display import Display
from cvpo.training.interrupts import Interrupted, Interrupts

# Streams of environment seeds, so that training and evaluation never share one.
TRAIN, EVALUATE = 0, 1
CHUNK_SECONDS = 0.25  # of updates between two looks at the keyboard and the progress bar

Metrics = dict[str, Any]


class Loop:
    """One run's loop over epochs."""

    def __init__(
        self,
        name: str,
        algorithm: Algorithm,
        config: LoopConfig,
        spec: Spec,
        environments: Environments,
        evaluations: Environments,
        directory: RunDirectory,
        seed: int,
    ) -> None:
        self._name, self._algorithm, self._config, self._spec = name, algorithm, config, spec
        self._environments, self._evaluations, self._directory = environments, evaluations, directory
        self._seed = seed
        self._epoch_steps = spec.episode_length * config.envs
        noiseless = config.noiseless_envs if isinstance(config, OffPolicyConfig) else 0
        self._act = make_act(algorithm, noiseless)
        self._random_act = make_random_act(spec)
        self._observe = jax.jit(algorithm.observe)
        self._learn = make_learn(algorithm, config) if isinstance(config, OffPolicyConfig) else None
        self._update = jax.jit(algorithm.update)

    def run(
        self, steps: int, display: Display, interrupts: Interrupts, make_sinks: Callable[[int], list[Sink]]
    ) -> None:
        """Train from the newest checkpoint, or from the start, until `steps`."""
        config, epochs = self._config, math.ceil(steps / self._epoch_steps)
        # no more than the run has, as memory for all is taken at the start
        ring = min(replay_epochs(config, self._spec), epochs)
        identity = learner_identity(self._name, self._spec, config.envs)
        store = CheckpointStore(self._directory.checkpoints, identity, replay_epochs=ring)
        state = self._algorithm.init(jax.random.fold_in(jax.random.key(self._seed), 0))
        # Through NumPy, as on resuming: it forgets weak types, which would have everything compiled a second time.
        state = jax.tree.map(jnp.asarray, jax.device_get(state))
        storage = replay.create(self._spec, ring, config.envs) if ring else None
        counters: Metrics = {"wall_seconds": 0.0, "cumulative_costs": [0.0] * self._spec.num_costs}

        template = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), storage)
        checkpoint = store.load(state, template)
        first = 0
        if checkpoint is None:
            self._directory.require_no_results()
        else:
            first, counters = checkpoint.epoch + 1, checkpoint.counters
            state = jax.tree.map(jnp.asarray, checkpoint.learner)
            for epoch, segment in checkpoint.segments():
                storage = replay.add(storage, segment, epoch % ring)
        self._directory.set_steps(max(steps, first * self._epoch_steps))  # what is trained already stays trained
        self._directory.truncate_metrics(first - 1)
        sinks = make_sinks(first * self._epoch_steps)
        for line in (self._algorithm.describe(), f"run directory: {self._directory.path}"):
            if line:
                display.message(line)
        if first:
            display.message(f"resuming after epoch {first - 1}")
            display.resume(first - 1, first * self._epoch_steps, counters["wall_seconds"])

        began = time.monotonic() - counters["wall_seconds"]
        epoch, saved = first, first - 1
        try:
            for epoch in range(first, epochs):

                def progress(phase: str) -> Callable[[float], None]:
                    def show(fraction: float) -> None:
                        display.phase(phase, fraction)
                        interrupts.check()

                    return show

                key = jax.random.fold_in(jax.random.key(self._seed), epoch + 1)
                metrics, state, storage, rollout = self._epoch(epoch, epochs, key, state, storage, ring, progress)
                spent = rollout.costs.sum((0, 1), dtype=np.float64)
                counters = {
                    "wall_seconds": time.monotonic() - began,
                    "cumulative_costs": [
                        a + float(b) for a, b in zip(counters["cumulative_costs"], spent, strict=True)
                    ],
                }
                metrics = {
                    "epoch": epoch,
                    "steps": (epoch + 1) * self._epoch_steps,
                    "wall_seconds": counters["wall_seconds"],
                    **self._per_cost("train/cumulative_cost", counters["cumulative_costs"]),
                    **metrics,
                }
                # the checkpoint last: what is written without it is written again on resuming, with it never
                self._directory.append_metrics(metrics)
                params = self._algorithm.policy(state)
                save_policy(self._directory.path, self._name, config, self._spec, self._environments, params, epoch)
                store.save(epoch, jax.device_get(state), counters, rollout if ring else None)
                saved = epoch
                for sink in sinks:
                    sink.write(metrics)
                display.epoch(metrics)
                interrupts.check()
        except Interrupted as stop:
            kept = f"epochs 0 to {saved} are saved" if saved >= 0 else "no epoch was finished, so nothing is saved yet"
            display.message(f"stopped by {stop} in epoch {epoch}; {kept}; resume with: --resume {self._directory.path}")
            if stop.number == signal.SIGINT:
                raise KeyboardInterrupt from None
            raise SystemExit(128 + stop.number) from None
        finally:
            for sink in sinks:
                sink.close()

    def _epoch(
        self,
        epoch: int,
        epochs: int,
        key: jax.Array,
        state: State,
        storage: Transition | None,
        ring: int,
        progress: Callable[[str], Callable[[float], None]],
    ) -> tuple[Metrics, State, Transition | None, Transition]:
        config = self._config
        collect_key, learn_key = jax.random.split(key)
        start = time.monotonic()
        warm_up = isinstance(config, OffPolicyConfig) and epoch < config.random_epochs
        rollout = collect(
            self._environments,
            self._random_act if warm_up else self._act,
            self._algorithm.policy(state),
            collect_key,
            self._seeds(TRAIN, epoch, config.envs),
            progress("collect"),
        )
        collected = time.monotonic()
        if isinstance(config, OffPolicyConfig):
            assert storage is not None and self._learn is not None
            state = self._observe(state, rollout)
            storage = replay.add(storage, rollout, epoch % ring)
            updates = updates_before(config, epoch + 1, self._epoch_steps) - updates_before(
                config, epoch, self._epoch_steps
            )
            state, info = self._learn(state, storage, min(epoch + 1, ring), learn_key, updates, progress("learn"))
        else:
            # The policy learns from the rollout as it saw it, so what the rollout tells of scales comes afterwards.
            state, update = self._update(state, rollout, learn_key)
            info = update.of(1)
            state = self._observe(state, rollout)
        jax.block_until_ready(state)
        if not all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves(self._algorithm.policy(state))):
            raise Diverged(f"the policy after the updates of epoch {epoch}")
        learned = time.monotonic()
        metrics = self._episode_metrics("train", *episode_statistics(rollout))
        if (epoch + 1) % config.eval_every == 0 or epoch == epochs - 1:
            seeds = self._seeds(EVALUATE, epoch, config.eval_episodes)
            params = self._algorithm.policy(state)
            evaluated = evaluate_policy(self._evaluations, self._act, params, seeds, progress("evaluate"))
            metrics |= self._episode_metrics("eval", *evaluated)
        metrics |= {name: float(value) for name, value in info.items()}
        metrics |= {
            "time/collect": collected - start,
            "time/learn": learned - collected,
            "time/evaluate": time.monotonic() - learned,
        }
        return metrics, state, storage, rollout

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
        }

    def _per_cost(self, name: str, values: Any) -> Metrics:
        """One value as `name`, several as `name_0`, `name_1`, ..."""
        return {key: float(value) for key, value in per_cost(name, values).items()}


def replay_epochs(config: LoopConfig, spec: Spec) -> int:
    """Epochs that the replay has room for; none if the method has no replay."""
    if not isinstance(config, OffPolicyConfig):
        return 0
    steps = spec.episode_length * config.envs
    if config.replay_capacity < steps:
        raise ValueError(
            f"replay_capacity {config.replay_capacity} does not hold one epoch of {steps} steps "
            f"({spec.episode_length} in each of {config.envs} environments); raise it or lower envs"
        )
    return config.replay_capacity // steps


def updates_before(config: OffPolicyConfig, epoch: int, epoch_steps: int) -> int:
    """Gradient steps due before an epoch begins: whole numbers that keep to the ratio over the run."""
    return math.floor(config.update_ratio * epoch * epoch_steps + 1e-9)


def learner_identity(algorithm: str, spec: Spec, envs: int) -> dict[str, Any]:
    """What a checkpoint must have been written for to fit a run."""
    return {
        "algorithm": algorithm,
        "obs_size": spec.obs_size,
        "action_size": spec.action_size,
        "discrete": spec.discrete,
        "constraints": spec.num_costs,
        "envs": envs,
    }


def make_learn(algorithm: Algorithm, config: OffPolicyConfig) -> Callable[..., tuple[State, Scalars]]:
    """An epoch's updates: sampled and run in compiled chunks that end often enough for a live display."""

    def one(state: State, storage: Transition, filled: jax.Array, key: jax.Array) -> tuple[State, UpdateMetrics]:
        sample_key, update_key = jax.random.split(key)
        batch = replay.sample(storage, filled, sample_key, config.sequences, config.n_step)
        return algorithm.update(state, batch, update_key)

    @jax.jit
    def chunk(
        carry: tuple[State, UpdateMetrics],
        storage: Transition,
        filled: jax.Array,
        key: jax.Array,
        start: int,
        stop: int,
    ) -> tuple[State, UpdateMetrics]:
        # The bounds are data, so chunks of any length share one compiled program.
        def body(i: jax.Array, carry: tuple[State, UpdateMetrics]) -> tuple[State, UpdateMetrics]:
            state, total = carry
            state, metrics = one(state, storage, filled, jax.random.fold_in(key, i))
            return state, total.plus(metrics)

        return jax.lax.fori_loop(start, stop, body, carry)

    nothing: UpdateMetrics | None = None

    def learn(
        state: State,
        storage: Transition,
        filled: int,
        key: jax.Array,
        updates: int,
        progress: Callable[[float], None],
    ) -> tuple[State, Scalars]:
        nonlocal nothing
        if not updates:
            return state, {}
        if nothing is None:
            nothing = UpdateMetrics.before_any(jax.eval_shape(one, state, storage, filled, key)[1])
        # The sums go from chunk to chunk, so that their rounding does not depend on where one ended.
        carry = (state, nothing)
        done, size = 0, 8
        while done < updates:
            began = time.monotonic()
            stop = min(done + size, updates)
            carry = chunk(carry, storage, filled, key, done, stop)
            jax.block_until_ready(carry)
            rate = (stop - done) / (time.monotonic() - began)
            done, size = stop, max(8, int(rate * CHUNK_SECONDS))
            progress(done / updates)
        state, total = carry
        return state, total.of(updates)

    return learn
