"""How long a report takes to write, and how large its page is: many runs that log as much as CVPO does.

taskset -c 0 python benchmarks/report.py
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from cvpo.report import write_report

METRICS = ("reward", "reward_std", "cost", "cost_std", "length", "cumulative_cost")


def write_runs(directory: Path, runs: int, epochs: int, metrics: int) -> None:
    """Five tasks, up to five methods each, the rest seeds. Noise on a curve packs as badly as a real log."""
    random = np.random.default_rng(0)
    methods = ["cvpo", "sac-lag", "td3-lag", "ppo-lag", "trpo"]
    for number in range(runs):
        task, method, seed = number % 5, methods[number // 5 % 5], number // 25
        run = directory / f"Task-{task}" / method / f"seed-{seed}"
        run.mkdir(parents=True)
        settings = {
            "env": f"Task-{task}", "source": None, "algorithm": method, "off_policy": "lag" in method, "seed": seed,
            "steps": 2000 * epochs, "cost_limit": [10.0], "preset": "default", "config": {"batch_size": 256},
            "spec": {"episode_length": 400}, "provenance": {"id": f"{number}", "versions": {}}, "changed": {},
        }  # fmt: skip
        (run / "config.json").write_text(json.dumps(settings))
        names = [f"train/{name}" for name in METRICS] + [
            f"group{i % 5}/metric{i}" for i in range(metrics - len(METRICS))
        ]
        curves = np.linspace(0, 30, epochs)[:, None] + random.normal(0, 3, (epochs, len(names)))
        curves[:, METRICS.index("cumulative_cost")] = np.cumsum(np.abs(curves[:, METRICS.index("cost")]))
        with (run / "metrics.jsonl").open("w") as file:
            for epoch, values in enumerate(curves.tolist()):
                line = {"epoch": epoch, "steps": 2000 * (epoch + 1), "wall_seconds": 5.1 * epoch}
                file.write(json.dumps(line | dict(zip(names, values, strict=True))) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--metrics", type=int, default=45, help="of each run")
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        write_runs(Path(scratch) / "runs", given.runs, given.epochs, given.metrics)
        clock, processor = [], []
        for turn in range(given.turns):
            began, used = time.perf_counter(), time.process_time()
            page = write_report([Path(scratch) / "runs"], Path(scratch) / f"report-{turn}")
            clock.append(time.perf_counter() - began)
            processor.append(time.process_time() - used)
        size = page.stat().st_size
    print(f"{given.runs} runs of {given.epochs} epochs and {given.metrics} metrics: {size / 1e6:.2f} MB, ", end="")
    print(f"{np.median(processor):.1f} s of one core (median of {given.turns}), {np.median(clock):.1f} s by the clock")


if __name__ == "__main__":
    main()
