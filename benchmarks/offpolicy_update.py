"""Time of one off-policy update at the paper's sizes, against its matrix products alone in the same library.

    taskset -c 0 python benchmarks/offpolicy_update.py [--algorithms sac-lag td3-lag ddpg-lag] [--cpu-time]

The products are read off the traced update: the same shapes in the same number, fed from random arrays, with nothing
between them. Both programs run many rounds inside one compiled loop, as training does, in turns; medians over turns.
A product inside a conditional (TD3's delayed policy step) runs in the same share of the rounds.
On a machine that others use, --cpu-time counts the process's own processor time instead of the clock's.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cvpo.algorithms.base import Sample, Spec, Transition
from cvpo.algorithms.registry import lookup
from cvpo.presets import make_config

OBS_SIZE, ACTION_SIZE = 60, 2
ROW = "{:<12}{:>12}{:>14}{:>12}{:>8}"


def random_sample(size: int) -> Sample:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(size=(size, *shape)), jnp.float32)

    never = jnp.zeros(size, bool)
    steps = Transition(
        normal(OBS_SIZE), jnp.tanh(normal(ACTION_SIZE)), normal(), normal(), normal(1), normal(OBS_SIZE), never, never
    )
    return Sample(steps, normal(OBS_SIZE))


def products(jaxpr: Any, conditional: bool = False) -> Iterator[tuple[bool, Any]]:
    """All matrix products of a program, and whether each is inside a conditional."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            yield conditional, equation
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else [value]:
                if hasattr(inner, "jaxpr") or hasattr(inner, "eqns"):
                    inside = conditional or equation.primitive.name == "cond"
                    yield from products(getattr(inner, "jaxpr", inner), inside)


def make_products(update: Callable[..., Any], arguments: tuple, delay: int) -> tuple[Callable[..., Any], float]:
    """A program of the matrix products of `update` alone, and how many billion operations one round has."""
    found = list(products(jax.make_jaxpr(update)(*arguments).jaxpr))
    rng = np.random.default_rng(0)
    operands = [
        [jnp.asarray(rng.normal(size=variable.aval.shape), jnp.float32) for variable in equation.invars]
        for _, equation in found
    ]

    def multiply(selected: bool, operands: Any, anchor: jax.Array) -> jax.Array:
        # The barriers tie each round's operands to the last round and use each product whole: nothing can be moved out
        # of the loop, merged or left out.
        operands, anchor = jax.lax.optimization_barrier((operands, anchor))
        results = [
            jax.lax.dot_general(*pair, equation.params["dimension_numbers"])
            for (conditional, equation), pair in zip(found, operands, strict=True)
            if conditional == selected
        ]
        results, anchor = jax.lax.optimization_barrier((results, anchor))
        return anchor + sum(1e-9 * result.ravel()[0] for result in results)

    @jax.jit
    def run(anchor: jax.Array, rounds: int) -> jax.Array:
        def body(i: jax.Array, anchor: jax.Array) -> jax.Array:
            anchor = multiply(False, operands, anchor)
            return jax.lax.cond(i % delay == 0, lambda a: multiply(True, operands, a), lambda a: a, anchor)

        return jax.lax.fori_loop(0, rounds, body, anchor)

    work = 0.0
    for conditional, equation in found:
        (contracted, _), _ = equation.params["dimension_numbers"]
        depth = np.prod([equation.invars[0].aval.shape[axis] for axis in contracted])
        work += 2e-9 * depth * np.prod(equation.outvars[0].aval.shape) / (delay if conditional else 1)
    return run, work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithms", nargs="+", default=["sac-lag", "td3-lag", "ddpg-lag"])
    parser.add_argument("--batch-size", type=int, default=300)
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 256])
    parser.add_argument("--rounds", type=int, default=20, help="updates in a turn")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--cpu-time", action="store_true", help="count processor time")
    options = parser.parse_args()
    clock = time.process_time if options.cpu_time else time.perf_counter

    print(ROW.format("", "update", "products", "GFLOP", "ratio"))
    for name in options.algorithms:
        sizes = {"batch_size": options.batch_size, "hidden": options.hidden}
        config = make_config(name, "paper", sizes | {"cost_signal": "measured"} if name.endswith("-lag") else sizes)
        spec = Spec(OBS_SIZE, ACTION_SIZE, False, (10.0,), 400)
        algorithm = lookup(name).make(config, spec)
        state, sample, key = algorithm.init(jax.random.key(0)), random_sample(options.batch_size), jax.random.key(1)

        @jax.jit
        def updates(state: Any, rounds: int, algorithm=algorithm, sample=sample, key=key) -> Any:
            def body(i: jax.Array, state: Any) -> Any:
                return algorithm.update(state, sample, jax.random.fold_in(key, i))[0]

            return jax.lax.fori_loop(0, rounds, body, state)

        multiply, work = make_products(algorithm.update, (state, sample, key), getattr(config, "policy_delay", 1))
        programs = ((updates, state), (multiply, jnp.zeros(())))
        times: tuple[list[float], list[float]] = ([], [])
        for turn in range(options.turns + 1):
            for (program, start), seconds in zip(programs, times, strict=True):
                began = clock()
                jax.block_until_ready(program(start, options.rounds))
                if turn:  # the first compiles
                    seconds.append((clock() - began) / options.rounds)
        whole, alone = (statistics.median(seconds) for seconds in times)
        ratio = statistics.median(a / b for a, b in zip(*times, strict=True))
        print(
            ROW.format(name, f"{1e3 * whole:.2f} ms", f"{1e3 * alone:.2f} ms", f"{work:.2f}", f"{ratio:.2f}"),
            flush=True,
        )


if __name__ == "__main__":
    main()
