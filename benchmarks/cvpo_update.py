"""How long one CVPO update takes at the paper's sizes, against PyTorch with SLSQP and its matrix products alone.

    taskset -c 0 python benchmarks/cvpo_update.py             one core
    python benchmarks/cvpo_update.py --parts                  all cores, and what the parts cost

The contenders run in turns within one process, with the same number of threads; times are medians over turns. A part
costs what the update saves without it; as the compiler fuses across parts, the savings need not add up. On a machine
that others use, --cpu-time counts the process' own processor time instead of the clock's.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import optax
from update_products import make_products

from cvpo.algorithms.base import Spec, Transition
from cvpo.algorithms.cvpo import learner as cvpo
from cvpo.algorithms.cvpo.config import Config
from cvpo.algorithms.cvpo.estep.solve import EStep
from cvpo.algorithms.shared import networks
from cvpo.presets import make_config
from cvpo.training import replay
from cvpo.training.learners import OffPolicyLearner

SPEC = Spec(obs_size=60, action_size=2, discrete=False, cost_limits=(10.0,), episode_length=400)
EPOCHS = 10

Run = Callable[[int], Any]  # of a number of updates


def random_replay(envs: int) -> Transition:
    """A full replay of made-up steps, larger than the processor's caches."""
    rng = np.random.default_rng(0)

    def fill(x: jax.Array) -> jax.Array:
        return jnp.asarray(rng.random(x.shape) < 0.003 if x.dtype == jnp.bool_ else rng.normal(size=x.shape), x.dtype)

    storage = jax.tree.map(fill, replay.create(SPEC, EPOCHS, envs).steps)
    return storage._replace(costs=jnp.maximum(storage.costs - 1.5, 0.0))


def compiled_loop(config: Config, storage: Transition) -> Run:
    algorithm = cvpo.make(config, SPEC)
    learner = OffPolicyLearner(algorithm, config, SPEC, EPOCHS)
    learner.begin(jax.random.key(0))
    epochs = (Transition(*steps) for steps in zip(*storage, strict=True))  # [E, ...] each
    learner.restore(learner.state, enumerate(epochs))

    def run(updates: int) -> None:
        learner.update(updates, jax.random.key(1), lambda fraction: None)

    return run


def parts() -> dict[str, list[Any]]:
    """What to replace to do without each part of the update; the replacements keep all else in use."""

    def plain_weights(q_reward, q_costs, limits, kl_limit, *rest, **options) -> EStep:
        one, weights = jnp.ones(()), jax.nn.softmax(q_reward - q_costs.sum(0))
        return EStep(one, jnp.ones(SPEC.num_costs), weights, one > 0, one > 0, one, one, one, one, limits, one)

    def first_rows(ring: replay.Replay, key: Any, size: int, length: int) -> Transition:
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[3:])[:size], ring.steps)

    def no_noise(key: Any, shape: tuple[int, ...], dtype: Any) -> jax.Array:
        return jnp.sin(jnp.arange(np.prod(shape), dtype=dtype)).reshape(shape)

    def identity(x: jax.Array) -> jax.Array:
        return x

    return {
        "E-step": [patch.object(cvpo, "solve_estep", plain_weights)],
        "Adam": [patch.object(optax, "adam", optax.sgd)],
        "averaging of the targets": [patch.object(optax, "incremental_update", lambda new, old, step: new)],
        "replay sampling": [patch.object(replay, "sample", first_rows)],
        "normal draws": [patch.object(jax.random, "normal", no_noise)],
        "rectifiers": [
            patch.object(networks.mlp_apply, "__defaults__", (identity,)),
            patch.object(jax.nn, "relu", identity),
        ],
    }


def measure(runs: dict[str, Run], turns: int, updates: int, clock: Callable[[], float]) -> dict[str, float]:
    """Median milliseconds of an update, for each of the runs."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(turns):
        for name, run in runs.items():
            start = clock()
            run(updates)
            seconds[name].append(clock() - start)
    return {name: float(np.median(times)) * 1e3 / updates for name, times in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--updates", type=int, default=16, help="in each turn")
    parser.add_argument("--parts", action="store_true", help="measure the update without each of its parts too")
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out, which then need not be installed")
    parser.add_argument("--cpu-time", action="store_true", help="count processor time")
    args = parser.parse_args()
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    config = make_config("cvpo", "paper")
    assert isinstance(config, Config)
    storage = random_replay(config.envs)
    ours, products = "cvpo, in its compiled loop", "its matrix products alone"
    runs: dict[str, Run] = {ours: compiled_loop(config, storage)}
    if not args.no_torch:
        import torch
        from torch_reference import TorchReference

        torch.set_num_threads(threads)
        state = cvpo.make(config, SPEC).init(jax.random.key(0))
        runs["PyTorch, eager, with SLSQP"] = TorchReference(config, SPEC, state, storage).learn
    loop = make_products(config, SPEC, storage.obs.reshape(-1, SPEC.obs_size))
    runs[products] = lambda updates: jax.block_until_ready(loop(updates))
    for run in runs.values():
        run(8)
    without: dict[str, Run] = {}
    for name, patches in parts().items() if args.parts else ():
        with ExitStack() as stack:
            for replacement in patches:
                stack.enter_context(replacement)
            without[name] = compiled_loop(config, storage)
            without[name](8)

    medians = measure(
        runs | without, args.turns, args.updates, time.process_time if args.cpu_time else time.perf_counter
    )
    print(
        f"One CVPO update: {config.batch_size} states, {config.particles} particles, {config.mstep_iterations} M-step "
        f"iterations, {config.reward_critics} + {config.cost_critics} critics, hidden units {config.hidden}, "
        f"{threads} {'threads' if threads > 1 else 'thread'}, {'processor' if args.cpu_time else 'wall'} time"
    )
    print(f"{'':<30}{'ms/update':>10}{'cvpo / this':>13}")
    for name in runs:
        print(f"{name:<30}{medians[name]:>10.1f}{medians[ours] / medians[name]:>13.2f}")
    if without:
        print(f"\n{'part':<30}{'ms/update':>10}{'fraction':>13}")
        for name in without:
            saved = medians[ours] - medians[name]
            print(f"{name:<30}{saved:>10.1f}{saved / medians[ours]:>13.0%}")


if __name__ == "__main__":
    main()
