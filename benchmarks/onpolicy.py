"""Steps per second of the on-policy methods, end to end: rollout, learning, logging and checkpoints, no evaluation.

    python benchmarks/onpolicy.py [--env Point-Goal] [--steps 80000] [--algorithms ppo-lag trpo-lag cpo]

Medians over the epochs between the first, which compiles, and the last, which evaluates. "learn/collect" is the ratio
of the learning time to the simulation time in the same epochs: other work on the machine changes it less than speeds.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile

import cvpo

COLUMNS = "{:<10} {:>9} {:>11} {:>9} {:>14} {:>14}"


def measure(env: str, algorithm: str, steps: int) -> str:
    with tempfile.TemporaryDirectory() as directory:
        config = {"eval_every": steps}  # the last epoch alone
        run = cvpo.train(env, algorithm, steps=steps, config=config, run_dir=f"{directory}/run", quiet=True)
        first, *rest = run.metrics()
    if len(rest) < 3:
        raise SystemExit(f"a median needs 4 epochs or more, got {1 + len(rest)}: raise --steps to {4 * first['steps']}")
    wall = [after["wall_seconds"] - before["wall_seconds"] for before, after in itertools.pairwise([first, *rest[:-1]])]
    collect, learn = (statistics.median(epoch[f"time/{part}"] for epoch in rest) for part in ("collect", "learn"))
    return COLUMNS.format(
        algorithm,
        f"{first['steps'] / statistics.median(wall):,.0f}",
        f"{collect:.2f} s",
        f"{learn:.2f} s",
        f"{learn / collect:.2f}",
        f"{first['time/learn']:.1f} s",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="Point-Goal")
    parser.add_argument("--steps", type=int, default=80_000)
    parser.add_argument("--algorithms", nargs="+", default=["ppo-lag", "trpo-lag", "cpo"])
    arguments = parser.parse_args()
    print(COLUMNS.format("", "steps/s", "collect", "learn", "learn/collect", "first learn"))
    for algorithm in arguments.algorithms:
        print(measure(arguments.env, algorithm, arguments.steps), flush=True)


if __name__ == "__main__":
    main()
