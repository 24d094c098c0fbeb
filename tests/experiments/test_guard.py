"""Nothing outlives the sweep that it belongs to, whatever it hangs in."""

import os
import signal
import subprocess
import sys
import time

import pytest
from killing import wait_until
from tiny_runs import SETTINGS, tiny

STUBBORN = """
import signal, subprocess, sys
from pathlib import Path
from cvpo.experiments.backends import guard
guard.GRACE_SECONDS = 0.2
guard.start_guard(remove=Path(sys.argv[1]))
child = subprocess.Popen(["sleep", "1000"])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(child.pid, flush=True)
while True:
    pass
"""


def gone(process: int) -> bool:
    """Whether it has ended; one that nobody has waited for yet has too."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("ending", ["the sweep's end", "the worker's death"])
def test_a_worker_that_listens_to_nobody_ends_with_all_that_it_started(tmp_path, ending):
    copy = tmp_path / "copy"
    copy.mkdir()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen([sys.executable, "-c", STUBBORN, copy], **pipes) as worker:
        child = int(worker.stdout.readline())
        assert not gone(child)
        if ending == "the sweep's end":
            worker.stdin.close()
        else:
            worker.kill()
        wait_until(lambda: gone(child) and gone(worker.pid))
        worker.wait()
        if ending == "the sweep's end":
            wait_until(lambda: not copy.exists())
        else:  # the sweep takes what it needs from it
            time.sleep(0.3)
            assert copy.exists()


START = """
import sys, time
from pathlib import Path
from cvpo.experiments.backends.worker_process import WorkerProcess
WorkerProcess(Path(sys.argv[1]), 1)
time.sleep(1000)
"""


def group(leader_of: str) -> list[int]:
    """The processes whose command line, or that of their group's leader, names a directory."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline") as file:
                found[int(name)] = (os.getpgid(int(name)), file.read())
        except (OSError, ProcessLookupError):
            continue
    leaders = {process for process, (_, command) in found.items() if leader_of in command and "worker" in command}
    return [process for process, (its_group, _) in found.items() if its_group in leaders and not gone(process)]


@pytest.mark.slow
@pytest.mark.parametrize("processes", [False, True])
def test_a_worker_whose_environment_hangs_dies_within_seconds_of_its_sweep(tmp_path, processes):
    spec = tiny("HangingBandit", config=SETTINGS | {"processes": processes})
    spec.write(tmp_path)
    with subprocess.Popen([sys.executable, "-c", START, tmp_path]) as sweep:
        # the run's directory is made when the environments are, and they hang in their second step
        wait_until(lambda: (tmp_path / "config.json").exists())
        time.sleep(3)
        assert len(group(str(tmp_path))) >= (3 if processes else 1)
        sweep.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    wait_until(lambda: not group(str(tmp_path)))
    assert time.monotonic() - killed < 30  # 5 s of grace, and a machine with much else to do
