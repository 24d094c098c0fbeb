"""Environments in processes of their own: the same numbers as in this one, and clear words when one is in trouble."""

import ast
import os
import re
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from worker_envs import Trouble

from cvpo.envs.adapter import Environments
from cvpo.envs.errors import BadEnvironment, EnvironmentFailed, EnvironmentTimeout, WorkerDied
from cvpo.envs.sources import remote
from cvpo.errors import UserError

WORKER = Path(__file__).parents[2] / "src" / "cvpo" / "envs" / "worker"


def troubled(what="", where=1, **options):
    return Environments(partial(Trouble, what, where), 2, episode_length=10, processes=True, **options)


def steps(envs, count):
    return [envs.step(np.full((2, 1), 0.1 * i)) for i in range(count)]


def test_processes_give_what_one_process_gives():
    def rollout(processes):
        with Environments(Trouble, 2, processes=processes, episode_length=10) as envs:
            return [envs.reset([3, 4]), *(array for step in steps(envs, 12) for array in step[:6])]

    for a, b in zip(rollout(False), rollout(True), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("kill", WorkerDied, "process of Trouble, environment 1 of 2, at step 3 of its epoch, was killed by SIGKILL"),
        ("leave", WorkerDied, "process of Trouble, environment 1 of 2, at step 3 of its epoch, ended with exit code 7"),
        ("exit", EnvironmentFailed, "SystemExit: goodbye, raised by Trouble, environment 1 of 2, at step 3"),
        ("raise", EnvironmentFailed, r"(?s)ArithmeticError: simulator exploded, raised by.*worker_envs.py.*in _raise"),
    ],
)
def test_trouble_is_named_with_its_environment_and_step(what, error, message):
    with troubled(what) as envs:
        envs.reset([0, 1])
        steps(envs, 2)
        with pytest.raises(error, match=message) as caught:
            envs.step(np.zeros((2, 1)))
    assert isinstance(caught.value, UserError)


def test_one_that_hangs_is_given_up_on_and_ended():
    began = time.monotonic()
    with troubled("sleep", timeout=1.0) as envs:
        pids = [worker.process.pid for worker in envs._copies._workers]
        envs.reset([0, 1])
        steps(envs, 2)
        with pytest.raises(EnvironmentTimeout, match=r"environment 1 of 2, at step 3 .*within 1 s.*--env-timeout"):
            envs.step(np.zeros((2, 1)))
    assert time.monotonic() - began < 20
    assert not any(map(alive, pids))


def test_what_an_environment_prints_does_no_harm(capfd):
    with troubled("print") as envs:
        envs.reset([0, 1])
        last = steps(envs, 5)[-1]
    np.testing.assert_array_equal(last.next_obs[:, 0], [5.0, 5.0])
    printed = capfd.readouterr()
    assert not printed.out  # which another program may be reading
    assert "x" * 1000 in printed.err


@pytest.mark.parametrize("killed", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_is_left_after_the_parent_is_killed_even_if_an_environment_hangs(tmp_path, killed):
    script = tmp_path / "script.py"
    # No `if __name__ == "__main__"`, and a class that only this script knows.
    script.write_text(
        textwrap.dedent("""
        import numpy as np, worker_envs
        from cvpo.envs.adapter import Environments
        class Mine(worker_envs.Trouble):
            pass
        envs = Environments(lambda: Mine("sleep", 1), 2, episode_length=10, processes=True)
        print(*(worker.process.pid for worker in envs._copies._workers), flush=True)
        envs.reset([0, 1])
        while True:
            envs.step(np.zeros((2, 1)))
        """)
    )
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    parent = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": paths}
    )
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    time.sleep(0.5)
    parent.send_signal(killed)
    parent.wait()
    deadline = time.monotonic() + 10
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, pids))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_too_many_open_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, hard))
    try:
        with pytest.raises(BadEnvironment, match=r"too many open files.*ulimit -n.*lower envs"):
            Environments(Trouble, 20, episode_length=10, processes=True)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(os.listdir("/proc/self/fd")) == used  # and those that were opened are closed


def test_what_cannot_be_sent_to_a_process():
    with pytest.raises(BadEnvironment, match="cannot be sent to another process"):
        Environments(partial(Trouble, threading.Lock()), 1, episode_length=10, processes=True)


def test_an_interpreter_that_is_none(tmp_path):
    with pytest.raises(BadEnvironment, match=r"cannot run the interpreter .*/nothing"):
        Environments(remote("m:id", python=str(tmp_path / "nothing")), 1)
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexit 3\n")
    silent.chmod(0o755)
    with pytest.raises(WorkerDied, match=r"ended with exit code 3.*silent must be Python 3.8 or newer with NumPy"):
        Environments(remote("m:id", python=str(silent)), 1)


def test_unknown_names_in_another_interpreter():
    with pytest.raises(BadEnvironment, match="cannot import 'no_such_module'"):
        Environments(remote("no_such_module:id", python=sys.executable), 1)
    with pytest.raises(BadEnvironment, match="no task or environment 'Pendulun-v1'; did you mean 'Pendulum-v1'"):
        Environments(remote("Pendulun-v1", python=sys.executable), 1)


def test_arguments_for_another_interpreter_are_json():
    with pytest.raises(BadEnvironment, match=r"as JSON.*got dict"):
        remote("m:id", python="python", size=np.zeros(2))


def test_the_worker_needs_python_3_8_and_numpy_only():
    known = {*sys.stdlib_module_names, "numpy"}
    for file in WORKER.glob("*.py"):
        text = file.read_text()
        tree = ast.parse(text, feature_version=(3, 8))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names.append(node.module)
            assert {name.split(".")[0] for name in names} <= known, file
        assert not re.search(r"zip\(.*strict|removeprefix|\bmatch ", text), file
