"""What a run's start costs: CPU seconds from the command to the end of the first epoch, and the programs compiled.

Without a cache of compiled programs, with an empty one, and with the one that this left. CPU seconds of all threads,
so that other work on the machine changes little.

    python benchmarks/start_up.py [--task Car-Circle] [--algorithms cvpo ppo-lag]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cvpo.training.compute import CACHE_VARIABLE


def cpu_seconds(pid: int) -> float:
    """User and system time of a process that runs, of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(task: str, algorithm: str, folder: Path, cache: str) -> tuple[float, int, float]:
    """CPU seconds until the first epoch's metrics are written, programs compiled or loaded, seconds that took."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    run = folder / f"run-{len(list(folder.iterdir()))}"
    command = [sys.executable, "-m", "cvpo", "train", task, "--algorithm", algorithm, "--steps", "1000000"]
    log = folder / f"{run.name}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--run-dir", str(run)],
            env=plain | {CACHE_VARIABLE: cache, "JAX_LOG_COMPILES": "1"},
            stdout=output,
            stderr=output,
        )
    metrics = run / "metrics.jsonl"
    while not metrics.exists() or "\n" not in metrics.read_text():
        if process.poll() is not None:
            sys.exit(f"the run ended before its first epoch did:\n{log.read_text()[-2000:]}")
        time.sleep(0.02)
    seconds = cpu_seconds(process.pid)
    process.kill()
    process.wait()
    compiled = [float(x) for x in re.findall(r"Finished XLA compilation of .* in ([\d.e-]+) sec", log.read_text())]
    return seconds, len(compiled), sum(compiled)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="Car-Circle")
    parser.add_argument("--algorithms", nargs="+", default=["cvpo", "ppo-lag"])
    arguments = parser.parse_args()
    print(f"{'algorithm':<12}{'cache':<8}{'CPU s':>8}{'programs':>10}{'size':>10}")
    for algorithm in arguments.algorithms:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            cache = folder / "cache"
            for state, where in (("none", "off"), ("empty", str(cache)), ("full", str(cache))):
                seconds, programs, _ = measure(arguments.task, algorithm, folder, where)
                size = sum(path.stat().st_size for path in cache.glob("**/*-cache")) / 2**20
                print(f"{algorithm:<12}{state:<8}{seconds:>8.1f}{programs:>10}{size:>8.1f}MB", flush=True)


if __name__ == "__main__":
    main()
