"""What a run computes with: neither a cache nor the number of cores changes a resumed run's bits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from saved_runs import untimed

from cvpo.training import compute

TESTS = Path(__file__).parents[1]
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

TRAIN = """
import os, sys, warnings
cores = sys.argv[1]
if cores:
    os.sched_setaffinity(0, map(int, cores.split(",")))
sys.path.insert(0, sys.argv[2])
from toys import Bandit
import jax
import cvpo
if "late" in sys.argv:
    jax.devices()
cvpo.train(Bandit, sys.argv[3], steps=int(sys.argv[4]), cost_limit=3.0, run_dir=sys.argv[5], resume=True, quiet=True,
    config={"episode_length": 10, "eval_episodes": 1, "eval_every": 1} | (
        {"envs": 40, "hidden": (256, 256), "minibatch_size": 400} if sys.argv[3] == "ppo-lag" else
        {"envs": 2, "hidden": (8,), "batch_size": 16, "particles": 4}))
"""


def train(path, steps, algorithm="ppo-lag", cores="", extra=(), **environment):
    plain = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    command = [sys.executable, "-c", TRAIN, cores, str(TESTS), algorithm, str(steps), str(path), *extra]
    done = subprocess.run(
        command,
        env=plain | {"CVPO_COMPILATION_CACHE": "off"} | environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stderr


def policy(path):
    return (path / "policy" / "policy.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
def test_a_run_resumed_with_another_number_of_cores_is_the_same_run(tmp_path):
    one, two = str(CORES[0]), ",".join(map(str, CORES[:2]))
    train(tmp_path / "whole", 1200, cores=one)
    train(tmp_path / "parts", 400, cores=one)
    train(tmp_path / "parts", 1200, cores=two)
    train(tmp_path / "other", 1200, cores=two)
    threads = [
        json.loads((tmp_path / name / "config.json").read_text())["compute_threads"]
        for name in ("whole", "parts", "other")
    ]
    assert threads == [1, 1, 2]
    assert untimed(tmp_path / "parts") == untimed(tmp_path / "whole")
    assert policy(tmp_path / "parts") == policy(tmp_path / "whole")
    # or the test would say nothing: two threads round differently
    assert policy(tmp_path / "other") != policy(tmp_path / "whole")


@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
def test_where_the_threads_cannot_be_restored_a_warning_says_so(tmp_path):
    one, two = str(CORES[0]), ",".join(map(str, CORES[:2]))
    train(tmp_path, 400, cores=one)
    warning = train(tmp_path, 800, cores=two, extra=("late",))
    assert "started with 1 compute threads, and this process has computed with 2 already" in " ".join(warning.split())


@pytest.mark.slow
def test_a_cached_program_computes_what_a_fresh_one_does(tmp_path):
    """Bit for bit: without a cache, into an empty one, from it, and from one that a killed process has damaged."""
    cache = tmp_path / "cache"
    folder = {"CVPO_COMPILATION_CACHE": str(cache)}
    for name, environment in (("off", {}), ("cold", folder), ("warm", folder), ("mended", folder)):
        if name == "mended":
            victim = max(cache.glob("threads-*/*-cache"), key=lambda path: path.stat().st_size)
            victim.write_bytes(victim.read_bytes()[:1000])
            victim.with_name(victim.name.replace("-cache", "-atime")).unlink()
        errors = train(tmp_path / name, 40, "cvpo", **environment)
        assert "cache" not in errors, errors
        # the learning step, which takes longest; whether a small program is stored depends on how long it took
        programs = {path.name for path in cache.glob("threads-*/jit__updates*-cache")}
        if name == "cold":
            assert programs
            stored = programs
        elif name != "off":
            assert programs == stored
    for name in ("cold", "warm", "mended"):
        assert untimed(tmp_path / name) == untimed(tmp_path / "off")
        assert policy(tmp_path / name) == policy(tmp_path / "off")


class TestWhere:
    @pytest.fixture(autouse=True)
    def no_other_cache(self, monkeypatch):
        self.set: dict[str, object] = {}

        class Config:
            jax_compilation_cache_dir = None
            jax_enable_compilation_cache = True

        monkeypatch.setattr(compute.jax, "config", Config)
        Config.update = staticmethod(self.set.__setitem__)
        self.config = Config
        monkeypatch.delenv(compute.CACHE_VARIABLE, raising=False)

    def test_in_the_users_cache_directory_and_bounded(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        path = compute.keep_compiled_programs(3)
        assert path == tmp_path / "cvpo" / "compiled" / "threads-3" and path.stat().st_mode & 0o077 == 0
        assert self.set["jax_compilation_cache_dir"] == str(path)
        assert 0 < self.set["jax_compilation_cache_max_size"] <= 2**30

    def test_off_or_elsewhere(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setenv(compute.CACHE_VARIABLE, "off")
        assert compute.keep_compiled_programs(1) is None and not self.set and not list(tmp_path.iterdir())
        monkeypatch.setenv(compute.CACHE_VARIABLE, str(tmp_path / "mine"))
        assert compute.keep_compiled_programs(1) == tmp_path / "mine" / "threads-1"

    def test_jaxs_own_settings_come_first(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        self.config.jax_compilation_cache_dir = "/elsewhere"
        assert compute.keep_compiled_programs(1) is None and not self.set

    def test_a_home_that_cannot_be_written_is_no_error(self, tmp_path, monkeypatch):
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        assert compute.keep_compiled_programs(1) is None and not self.set
