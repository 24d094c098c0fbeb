"""Time of one action: the NumPy policy that `cvpo.load` gives and the exported one, against the same through JAX.

    taskset -c 0 python benchmarks/policy_latency.py [--hidden 128 128] [--task Point-Goal]

All act on one observation at a time. It is processor time, and turns alternate, so that whatever else the machine does
changes little. Also how long the exported policy takes to start: from a new interpreter to its first action.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path

import jax
import numpy as np

import cvpo
from cvpo.algorithms.base import Spec
from cvpo.algorithms.registry import build
from cvpo.envs.actions import NativeActions
from cvpo.envs.adapter import Environments
from cvpo.envs.rollout import make_act
from cvpo.policies.export import export
from cvpo.policies.files import PolicyWriter
from cvpo.presets import make_config
from cvpo.runs.directory import RunDirectory

CALLS, TURNS, STARTS = 2_000, 15, 9


def seconds_per_call(act, observations: np.ndarray) -> float:
    began = time.process_time()
    for observation in observations:
        act(observation)
    return (time.process_time() - began) / len(observations)


def seconds_to_start(folder: Path, inputs: int) -> float:
    """Processor time of an interpreter that loads the exported policy and acts once."""

    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    before = used()
    program = f"import policy; policy.load()([0.0] * {inputs})"
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True)
    return used() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, nargs="+", default=[128, 128])
    parser.add_argument("--task", default="Point-Goal")
    options = parser.parse_args()

    environments = Environments(options.task, 1)
    spec = Spec(environments.obs_size, environments.action_size, environments.discrete, (10.0,), 400)
    config = make_config("cvpo", overrides={"hidden": tuple(options.hidden)})
    algorithm = build("cvpo", config, spec)
    params = algorithm.policy(algorithm.init(jax.random.key(0)))
    with tempfile.TemporaryDirectory() as folder:
        with RunDirectory.create(folder, {}) as directory:
            directory.append_metrics({"epoch": 0})
        PolicyWriter(Path(folder), algorithm, "cvpo", config, spec, environments).write(params, 0)
        policy = cvpo.load(folder)
        exported = Path(export(folder, Path(folder) / "exported", "numpy"))
        module = SourceFileLoader("exported_policy", str(exported / "policy.py")).load_module()
        alone = module.load(exported)
        starts = [seconds_to_start(exported, spec.obs_size) for _ in range(STARTS)]
    compiled, to_native = make_act(algorithm), NativeActions(environments.action)

    def through_jax(observation: np.ndarray) -> np.ndarray:
        return to_native(np.asarray(compiled(params, observation[None], None)[0]))

    observations = np.random.default_rng(0).normal(size=(CALLS, spec.obs_size)).astype(np.float32)
    contenders = {
        "cvpo.load, one observation": policy,
        "exported to NumPy": alone,
        "with noise": lambda observation: policy(observation, deterministic=False),
        "its arithmetic alone": policy.actor.best,
        "through JAX": through_jax,
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(TURNS):
        for name, act in contenders.items():
            times[name].append(seconds_per_call(act, observations))
    print(f"{options.task}, {options.hidden}, median and least of {TURNS} turns of {CALLS} calls, µs per action")
    for name, values in times.items():
        print(f"{name:<28}{1e6 * statistics.median(values):8.1f}{1e6 * min(values):8.1f}")
    began = time.process_time()
    policy.act(np.repeat(observations, 5, 0))
    print(f"a batch of {5 * CALLS}: {1e6 * (time.process_time() - began) / (5 * CALLS):.2f} µs per action")
    print(f"start of the export to its first action: {statistics.median(starts):.3f} s, least {min(starts):.3f} s")


if __name__ == "__main__":
    main()
