"""Learning from an epoch's rollout: off-policy from a replay of old epochs, on-policy from the newest one alone.

Both are objects with one interface, which is all that the loop knows:

    begin(key)                       a state to start from
    restore(state, segments)         the state of an earlier process instead
    acting(epoch)                    how to act while that epoch is collected
    noise(epoch, key)                what the actions of that epoch are made of
    learn(epoch, rollout, ...)       what the rollout teaches; the state is another one afterwards
    state, policy                    everything that a checkpoint keeps, and the part of it that acting needs
    segment_template, replay_epochs  what a checkpoint keeps of each rollout, and of how many; None and 0: nothing
"""

from __future__ import annotations

import abc
import time
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cvpo.algorithms.base import Algorithm, Params, Sample, Scalars, Spec, State, Transition, UpdateMetrics
from cvpo.algorithms.config import LoopConfig, OffPolicyConfig
from cvpo.algorithms.shared.noise import draw_noise
from cvpo.envs.rollout import Act, Progress, make_act, make_random_act
from cvpo.errors import BadValue
from cvpo.training import replay

CHUNK_SECONDS = 0.25  # of updates between two looks at the keyboard and the progress bar


def make_learner(algorithm: Algorithm, config: LoopConfig, spec: Spec, epochs: int) -> Learner:
    """The learner of a run of so many epochs. The one place that knows which methods have a replay."""
    if isinstance(config, OffPolicyConfig):
        return OffPolicyLearner(algorithm, config, spec, epochs)
    return OnPolicyLearner(algorithm, config, spec)


class Learner(abc.ABC):
    """What both kinds share: an algorithm and its state."""

    replay_epochs = 0
    segment_template: Any = None

    def __init__(self, algorithm: Algorithm, config: LoopConfig, spec: Spec) -> None:
        self.algorithm, self._spec = algorithm, spec
        self.envs = config.env_count(spec.episode_length)
        self.epoch_steps = spec.episode_length * self.envs
        self.act = make_act(algorithm)
        self._noise_color = 0.0
        self.state: State = None
        self._observe = jax.jit(algorithm.observe)
        self._update = jax.jit(algorithm.update)

    def begin(self, key: jax.Array) -> None:
        """Start from nothing."""
        state = self.algorithm.init(key)
        # Through NumPy, as on resuming: it forgets weak types, which would have everything compiled a second time.
        self.state = jax.tree.map(jnp.asarray, jax.device_get(state))

    def restore(self, state: State, segments: Iterable[tuple[int, Transition]]) -> None:
        """Go on from a state that an earlier process saved, with the segments that it kept."""
        self.state = jax.tree.map(jnp.asarray, state)

    def start_with(self, data: Transition, learn: bool, key: jax.Array, progress: Progress) -> None:
        """Take in epochs [P, H, N, ...] that another policy collected, before the first one of the run."""
        raise BadValue("only methods with a replay can start with data: this one learns from its newest episodes only")

    @property
    def policy(self) -> Params:
        return self.algorithm.policy(self.state)

    def acting(self, epoch: int) -> Act:
        return self.act

    def noiseless(self, epoch: int) -> np.ndarray:
        """Which of the environments [N] act without noise in an epoch."""
        return np.zeros(self.envs, bool)

    def noise(self, epoch: int, key: jax.Array) -> np.ndarray:
        """What the actions of an epoch are made of [H, N, a]: zeros where they are the policy's own."""
        rows = (self._spec.episode_length, self.envs)
        noise = np.asarray(draw_noise(self._spec, key, rows, self._noise_color))
        return np.where(self.noiseless(epoch)[:, None], np.zeros_like(noise), noise)

    @abc.abstractmethod
    def learn(self, epoch: int, rollout: Transition, key: jax.Array, progress: Progress) -> Scalars:
        """Learn from an epoch's rollout [H, N]; what there is to say about it."""


class OnPolicyLearner(Learner):
    """One update for each epoch, from its rollout."""

    def learn(self, epoch: int, rollout: Transition, key: jax.Array, progress: Progress) -> Scalars:
        # The policy learns from the rollout as it saw it, so what the rollout tells of scales comes afterwards.
        state, metrics = self._update(self.state, rollout, key)
        self.state = jax.block_until_ready(self._observe(state, rollout, self.noiseless(epoch)))
        return metrics.of(1)


class OffPolicyLearner(Learner):
    """Many updates for each epoch, on batches of a replay."""

    def __init__(self, algorithm: Algorithm, config: OffPolicyConfig, spec: Spec, epochs: int) -> None:
        super().__init__(algorithm, config, spec)
        self._config = config
        if config.replay_capacity < self.epoch_steps:
            raise BadValue(
                f"replay_capacity {config.replay_capacity} does not hold one epoch of {self.epoch_steps} steps "
                f"({spec.episode_length} in each of {self.envs} environments); raise it or lower envs"
            )
        # no more than the run has, as memory for all is taken at the start
        self.replay_epochs = min(config.replay_capacity // self.epoch_steps, epochs)
        self.segment_template = replay.segment(spec, self.envs)
        self._noise_color = config.noise_color
        self._random_act = make_random_act(spec)
        self._replay: replay.Replay
        self._given = 0  # epochs that the replay had before the run's own
        self._nothing: UpdateMetrics | None = None
        self._chunk = jax.jit(self._updates)
        self._one_traced = jax.jit(self._one, inline=True)  # once, for its shapes and for its place in the loop

    def begin(self, key: jax.Array) -> None:
        super().begin(key)
        self._replay = replay.create(self._spec, self.replay_epochs, self.envs)

    def restore(self, state: State, segments: Iterable[tuple[int, Transition]]) -> None:
        super().restore(state, segments)
        own = ((self._given + epoch, rollout) for epoch, rollout in segments)
        self._replay = replay.restore(self._replay, own)

    def start_with(self, data: Transition, learn: bool, key: jax.Array, progress: Progress) -> None:
        self._given = len(data.reward)
        for i in range(self._given):
            rollout = jax.tree.map(lambda x, i=i: jnp.asarray(x[i]), data)
            if learn:  # as many updates as if the run had collected it
                self.learn(i, rollout, jax.random.fold_in(key, i), lambda _: None)
            else:
                self._replay = replay.add(self._replay, rollout)
            progress((i + 1) / self._given)

    def noiseless(self, epoch: int) -> np.ndarray:
        if epoch < self._config.random_epochs:
            return super().noiseless(epoch)  # random actions are made of noise alone
        return self._config.noiseless(epoch, self._spec.episode_length)

    def acting(self, epoch: int) -> Act:
        return self._random_act if epoch < self._config.random_epochs else self.act

    def learn(self, epoch: int, rollout: Transition, key: jax.Array, progress: Progress) -> Scalars:
        self.state = self._observe(self.state, rollout, self.noiseless(epoch))
        self._replay = replay.add(self._replay, rollout)
        before, after = (self._config.updates_before(n * self.epoch_steps) for n in (epoch, epoch + 1))
        updates = after - before
        return self.update(updates, key, progress) if updates else {}

    def update(self, updates: int, key: jax.Array, progress: Progress) -> Scalars:
        """So many gradient steps on the replay, in compiled chunks that end often enough for a live display."""
        if self._nothing is None:
            self._nothing = UpdateMetrics.before_any(jax.eval_shape(self._one_traced, self.state, self._replay, key)[1])
        # The sums go from chunk to chunk, so that their rounding does not depend on where one ended.
        carry = (self.state, self._nothing)
        done, size = 0, 8
        while done < updates:
            began = time.monotonic()
            stop = min(done + size, updates)
            carry = jax.block_until_ready(self._chunk(carry, self._replay, key, done, stop))
            rate = (stop - done) / (time.monotonic() - began)
            done, size = stop, max(8, int(rate * CHUNK_SECONDS))
            progress(done / updates)
        self.state, total = carry
        return total.of(updates)

    def _one(self, state: State, memory: replay.Replay, key: jax.Array) -> tuple[State, UpdateMetrics]:
        steps_key, states_key, update_key = jax.random.split(key, 3)
        steps = replay.sample(memory, steps_key, self._config.sequences, self._config.n_step)
        states = replay.sample_states(memory, states_key, self._config.learned_states)
        return self.algorithm.update(state, Sample(steps, states), update_key)

    def _updates(
        self, carry: tuple[State, UpdateMetrics], memory: replay.Replay, key: jax.Array, start: int, stop: int
    ) -> tuple[State, UpdateMetrics]:
        """The updates from `start` to `stop`. The bounds are data, so chunks of any length share one program."""

        def body(i: jax.Array, carry: tuple[State, UpdateMetrics]) -> tuple[State, UpdateMetrics]:
            state, total = carry
            state, metrics = self._one_traced(state, memory, jax.random.fold_in(key, i))
            return state, total.plus(metrics)

        return jax.lax.fori_loop(start, stop, body, carry)
