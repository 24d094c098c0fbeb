"""Torture: kills at random moments, damaged files, misbehaving environments, memory over many epochs.

    python benchmarks/torture.py                                # all of it, some minutes
    python benchmarks/torture.py kills --count 60               # a part of it

Each part prints what it did and how it ended, and the exit code is 1 if anything was not as it must be:

- kills: a run that is killed (-9) again and again, and resumed, ends with the metrics, the policy and the checkpoint of
  one that never was, bit for bit.
- damages: a checkpoint directory with a random damage loads as one of the states that were saved, or not at all.
- environments: training on each ends with one clear line, and the epochs that were finished are kept.
- memory: what a process holds after many epochs is what it held after a few.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import multiprocessing
import multiprocessing.process
import os
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).parents[1] / "tests"
SMALL = {"envs": 2, "hidden": [8], "eval_episodes": 1, "episode_length": 10}
REPLAY = {"batch_size": 8, "update_ratio": 0.1, "replay_capacity": 400}
METHODS: dict[str, dict[str, Any]] = {
    "cvpo": SMALL | REPLAY | {"particles": 4, "mstep_iterations": 1},
    "sac-lag": SMALL | REPLAY,
    "ppo-lag": SMALL,
}
EPOCH = 20  # steps

PROCESSES = multiprocessing.get_context("forkserver")  # a process is there at once, with JAX imported
PROCESSES.set_forkserver_preload(["cvpo.training.train"])


def train_bandit(method: str, epochs: int, directory: Path) -> None:
    """Train a tiny run, or go on with it."""
    import cvpo

    sys.path.insert(0, str(TESTS))
    from toys import Bandit

    options: dict[str, Any] = {"resume": True, "quiet": True, "config": METHODS[method]}
    cvpo.train(Bandit, method, steps=EPOCH * epochs, cost_limit=3.0, run_dir=directory, **options)


def train(method: str, epochs: int, directory: Path) -> multiprocessing.process.BaseProcess:
    process = PROCESSES.Process(target=train_bandit, args=(method, epochs, directory))
    process.start()
    return process


def finish(process: multiprocessing.process.BaseProcess) -> None:
    process.join()
    if process.exitcode:
        raise RuntimeError(f"training ended with {process.exitcode}")


def outcome(directory: Path) -> dict[str, Any]:
    """All that a run ends with but times."""
    from cvpo.runs.directory import read_metrics

    metrics = [
        {key: value for key, value in line.items() if key != "wall_seconds" and not key.startswith("time/")}
        for line in read_metrics(directory)
    ]
    policies = {path.name: path.read_bytes() for path in sorted((directory / "policy").iterdir())}
    return {"metrics": metrics, "policies": policies, "arrays": checkpoint_arrays(directory)}


def checkpoint_arrays(directory: Path) -> dict[str, bytes]:
    from cvpo.runs.array_file import read_arrays

    newest = max((directory / "checkpoints").glob("epoch-*.safetensors"))
    return {name: array.tobytes() for name, array in read_arrays(newest)[0].items()}


def epochs_done(directory: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return (directory / "metrics.jsonl").read_bytes().count(b"\n")
    return 0


def kills(count: int, epochs: int, moments: random.Random, scratch: Path) -> list[str]:
    """Kill runs of every method `count` times in all; what differs from the undisturbed ones."""
    wrong = []
    per_method = -(-count // len(METHODS))
    for method in METHODS:
        undisturbed, killed = scratch / f"{method}-undisturbed", scratch / f"{method}-killed"
        finish(train(method, epochs, undisturbed))
        done, where, began = 0, {"starting": 0, "training": 0}, time.monotonic()
        while True:
            process, before = train(method, epochs, killed), epochs_done(killed)
            if done == per_method:
                finish(process)
                break
            if moments.random() < 0.2:  # while it starts
                time.sleep(moments.uniform(0.0, 1.0))
            else:
                last = before + moments.randint(1, max(1, epochs // (per_method + 2)))
                while epochs_done(killed) < last and process.is_alive():
                    time.sleep(0.005)
                time.sleep(moments.uniform(0.0, 0.05))
            if not process.is_alive():
                finish(process)
                wrong.append(f"{method}: finished after {done} of {per_method} kills; more epochs are needed")
                break
            process.kill()
            process.join()
            done += 1
            where["training" if epochs_done(killed) > before else "starting"] += 1
        expected, found = outcome(undisturbed), outcome(killed)
        differing = [part for part in expected if expected[part] != found[part]]
        wrong += [f"{method}: {part} differ after {done} kills" for part in differing]
        seconds = time.monotonic() - began
        print(
            f"kills: {method}: {done} ({where['training']} while training, {where['starting']} while starting), "
            f"{epochs} epochs, {'exact' if not differing else 'DIFFERENT: ' + ', '.join(differing)}, {seconds:.0f} s",
            flush=True,
        )
    return wrong


def state(epoch: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The learner and the replay's segment of an epoch."""
    rng = np.random.default_rng(epoch)
    learner = {
        "weights": rng.normal(size=(7, 5)).astype(np.float32),
        "count": np.array(epoch),
        "flag": np.ones(3, bool),
    }
    return learner, {"obs": rng.normal(size=(5, 2, 3)).astype(np.float32), "ended": rng.random((5, 2)) < 0.2}


def damage(directory: Path, rng: random.Random) -> str:
    """Change something at random in a directory of checkpoints; says what."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    path, other = rng.choice(files), rng.choice(files)
    content = bytearray(path.read_bytes())
    at = rng.randrange(len(content))

    def overwritten(new: bytes) -> bytes:
        return bytes(content[:at]) + new + bytes(content[at + len(new) :])

    flipped = bytearray(content)
    flipped[at] ^= 1 << rng.randrange(8)
    ways: dict[str, Callable[[], Any]] = {
        "flip a bit": lambda: path.write_bytes(flipped),
        "cut short": lambda: path.write_bytes(content[:at]),
        "empty": lambda: path.write_bytes(b""),
        "zeros": lambda: path.write_bytes(overwritten(bytes(rng.randrange(1, 64)))),
        "noise": lambda: path.write_bytes(overwritten(rng.randbytes(rng.randrange(1, 64)))),
        "insert": lambda: path.write_bytes(bytes(content[:at]) + rng.randbytes(3) + bytes(content[at:])),
        "append": lambda: path.write_bytes(bytes(content) + rng.randbytes(5)),
        "remove": path.unlink,
        "swap": lambda: (path.write_bytes(other.read_bytes()), other.write_bytes(content)),
        "copy over": lambda: other.write_bytes(content),
        "later epoch": lambda: path.with_name("epoch-000099.safetensors").write_bytes(content),
        "directory": lambda: (path.unlink(), path.mkdir()),
        "link": lambda: (path.unlink(), path.symlink_to(other)),
    }
    way = rng.choice(list(ways))
    ways[way]()
    return way


def damages(count: int, rng: random.Random, scratch: Path) -> list[str]:
    """Damage a directory of checkpoints in `count` ways; what was loaded that was never saved."""
    from cvpo.errors import UserError
    from cvpo.runs.checkpoint import CheckpointStore

    original = scratch / "checkpoints"
    writer = CheckpointStore(original, {"algorithm": "cvpo"}, replay_epochs=4)
    for epoch in range(8):
        learner, segment = state(epoch)
        writer.save(epoch, learner, {"epoch": epoch}, segment)
    ended: dict[str, int] = {"newest": 0, "an earlier one": 0, "refused": 0}
    wrong = []
    for number in range(count):
        copy = scratch / "copy"
        shutil.copytree(original, copy)
        way = damage(copy, rng)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = CheckpointStore(copy, {"algorithm": "cvpo"}, replay_epochs=4).load(*state(0))
                assert found is not None
                loaded = [found.learner, *(segment for _, segment in found.segments())]
        except UserError:
            ended["refused"] += 1
        except Exception as error:
            wrong.append(f"damage {number} ({way}): {type(error).__name__} instead of a clear refusal: {error}")
        else:
            saved = [state(found.epoch)[0], *(state(e)[1] for e in range(found.epoch - 3, found.epoch + 1))]
            same = all(
                a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)
                for a, b in itertools.zip_longest(loaded, saved, fillvalue={})
            )
            if not same or found.counters != {"epoch": found.epoch}:
                wrong.append(f"damage {number} ({way}): loaded what was never saved")
            ended["newest" if found.epoch == 7 else "an earlier one"] += 1
        shutil.rmtree(copy)
    print(f"damages: {count}: " + ", ".join(f"{n} {how}" for how, n in ended.items()) + f"; {len(wrong)} wrong")
    return wrong


def environments(count: int, scratch: Path) -> list[str]:
    """Train on `count` misbehaving environments that break in their second epoch, or from the start."""
    import cvpo
    from cvpo.errors import UserError
    from cvpo.runs.directory import read_metrics

    sys.path[:0] = [str(TESTS), str(TESTS / "envs")]
    from test_misbehaving import AT_ONCE, LATER, Tiny  # the collection, with the words that each must give

    class Late(Tiny):
        """Well-behaved for the first epoch of a training."""

        def step(self, action: Any) -> Any:
            self.steps = getattr(self, "steps", 0) + 1
            if self.steps <= SMALL["episode_length"]:
                third, self._third = self._third, None
                values = super().step(action)
                self._third = third
                return values
            return super().step(action)

    cases = [(name, lambda third=third: Late(third), 1) for name, (third, _) in LATER.items()]
    cases += [(name, make, 0) for name, (make, _) in AT_ONCE.items()]
    wrong = []
    for name, make, epochs in cases[:count]:
        directory = scratch / name.replace(" ", "-")
        try:
            # evaluation has environments of its own, which would break before those of the second epoch
            config = SMALL | {"eval_every": 99}
            cvpo.train(make, "ppo-lag", steps=5 * EPOCH, cost_limit=3.0, run_dir=directory, quiet=True, config=config)
        except UserError as error:
            if "\n" in str(error) or len(str(error)) > 400:
                wrong.append(f"{name}: not one clear line: {error}")
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}")
        else:
            wrong.append(f"{name}: trained as if nothing was wrong")
        kept = len(read_metrics(directory)) if (directory / "config.json").exists() else 0
        if kept != epochs:
            wrong.append(f"{name}: {kept} epochs are kept, {epochs} were finished")
    print(f"environments: {min(count, len(cases))}: {len(wrong)} wrong")
    return wrong


def memory(epochs: int, scratch: Path) -> list[str]:
    """Train for many epochs; an error if the process grows by 5 MB or more after the first fifth."""
    process, directory = train("ppo-lag", epochs, scratch / "memory"), scratch / "memory"
    sizes: dict[int, float] = {}
    while process.is_alive():
        with contextlib.suppress(OSError, StopIteration):
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
            sizes[epochs_done(directory)] = kilobytes / 1000
        time.sleep(0.02)
    finish(process)
    early = next(size for done, size in sizes.items() if done >= epochs // 5)
    late = [size for done, size in sizes.items() if done < epochs][-1]  # the end evaluates once more
    print(f"memory: {late - early:+.1f} MB from epoch {epochs // 5} to {epochs}, of {late:.0f} MB")
    return [f"memory grew by {late - early:.1f} MB"] if late - early >= 5.0 else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["kills", "damages", "environments", "memory"])
    parser.add_argument("--count", type=int, help="of kills (60), damages (1000), environments (all), epochs (500)")
    parser.add_argument("--epochs", type=int, default=200, help="of a run that is killed")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(tempfile.gettempdir(), "cvpo-torture-compiled"))
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="cvpo-torture-") as name:
        scratch, rng = Path(name), random.Random(options.seed)
        parts: dict[str, Callable[[], list[str]]] = {
            "damages": lambda: damages(options.count or 1000, rng, scratch),
            "environments": lambda: environments(options.count or 1000, scratch),
            "kills": lambda: kills(options.count or 60, options.epochs, rng, scratch),
            "memory": lambda: memory(options.count or 500, scratch),
        }
        for part in [options.part] if options.part else parts:
            wrong += parts[part]()
    for line in wrong:
        print(f"WRONG: {line}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
