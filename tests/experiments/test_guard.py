"""Nothing outlives the sweep that it belongs to, whatever it hangs in."""

import os
import subprocess
import sys
import time

import pytest
from killing import gone, started_by, wait_until
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


@pytest.mark.slow
@pytest.mark.parametrize("processes", [False, True])
def test_a_worker_whose_environment_hangs_ends_with_its_sweep(tmp_path, processes):
    spec = tiny("HangingBandit", config=SETTINGS | {"processes": processes})
    spec.write(tmp_path)
    hangs = tmp_path / "hangs"
    with subprocess.Popen([sys.executable, "-c", START, tmp_path], env=os.environ | {"HANGS": str(hangs)}) as sweep:
        wait_until(hangs.exists)
        left = started_by(sweep.pid)
        assert len(left) >= (4 if processes else 2)  # the worker, its guard, and an environment in each process
        sweep.kill()
    wait_until(lambda: all(map(gone, left)))
