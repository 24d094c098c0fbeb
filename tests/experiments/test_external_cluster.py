"""The recipe of docs/experiments.md: a Ray cluster of two nodes with a token, here on this machine's loopback."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from killing import parent_of, wait_until, workers_in
from tiny_runs import WORKER_PATH, tiny

pytest.importorskip("ray", reason="Ray is not installed")
NODES = ("127.0.0.1", "127.0.0.2")
RAY = Path(sys.executable).with_name("ray")
SWEEP = """
import sys
from tiny_runs import tiny
from cvpo.experiments import sweep
ended = sweep([tiny("SlowBandit", seed=seed, epochs=6) for seed in range(2)], sys.argv[1], ray=sys.argv[2])
sys.exit(any(status.state != "done" for status in ended))
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind((NODES[0], 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def node(log: Path, environment: dict[str, str], *arguments: str):
    """`ray start` in the foreground, so that it and all that it started can be ended alone."""
    command = [RAY, "start", "--block", "--num-cpus=1", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
        try:
            wait_until(lambda: process.poll() is not None or b"runtime started" in log.read_bytes())
            assert process.poll() is None, log.read_text()
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def start_sweep(output: Path, address: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SWEEP, str(output), address]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def nodes_at_work(output: Path) -> set[int]:
    """Ids of the nodes that train below `output`: a worker process belongs to a task, and the task to a node."""
    found = set()
    for worker in workers_in(output):
        with contextlib.suppress(OSError):  # it may just have ended
            node = parent_of(parent_of(worker))
            found |= {node} if "raylet" in Path(f"/proc/{node}/cmdline").read_text() else set()
    return found


@pytest.mark.slow
def test_a_sweep_on_a_cluster_of_two_nodes_with_a_token(tmp_path):
    environment = os.environ | {
        "RAY_AUTH_MODE": "token",
        "HOME": str(tmp_path),  # where the token is
        "RAY_TMPDIR": "/tmp",  # its sockets need short names
        "RAY_worker_niceness": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": os.pathsep.join([WORKER_PATH, os.environ.get("PYTHONPATH", "")]),
    }
    subprocess.run([RAY, "get-auth-token", "--generate"], env=environment, check=True, stdout=subprocess.DEVNULL)
    address = f"{NODES[0]}:{free_port()}"
    head = (
        "--head",
        f"--node-ip-address={NODES[0]}",
        f"--port={address.rpartition(':')[2]}",
        "--include-dashboard=false",
    )
    second = (f"--address={address}", f"--node-ip-address={NODES[1]}")
    with node(tmp_path / "head.log", environment, *head), node(tmp_path / "second.log", environment, *second):
        sweep, seen = start_sweep(tmp_path / "runs", address, environment), set()
        while sweep.poll() is None:
            seen |= nodes_at_work(tmp_path / "runs")
            time.sleep(0.2)
        output, _ = sweep.communicate()
        assert sweep.returncode == 0, output
        assert len(seen) == 2
        stranger = start_sweep(tmp_path / "none", address, environment | {"RAY_AUTH_MODE": "disabled"})
        output, _ = stranger.communicate()
        assert stranger.returncode != 0 and f"cannot join the Ray cluster {address}" in output, output
    for seed in range(2):
        assert (tmp_path / "runs" / tiny("SlowBandit", seed=seed).path / "finished.json").exists()
