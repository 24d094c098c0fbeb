"""Signals to a run: it stops at once, loses no finished epoch, and tells how to go on."""

import os
import signal
import subprocess
import sys

import pytest
from bandit_runs import TINY, bandit, wait_for_epochs
from toys import Bandit

import cvpo


@pytest.mark.parametrize(
    ("number", "code", "processes"),
    [(signal.SIGTERM, 143, False), (signal.SIGINT, 130, False), (signal.SIGINT, 130, True)],
)
def test_signals_leave_a_run_that_resumes(tmp_path, number, code, processes):
    script = f"""
import sys; sys.path.insert(0, {os.path.dirname(os.path.dirname(__file__))!r})
from toys import Bandit
import cvpo
config = {TINY | {"episode_length": 10, "processes": processes}!r}
cvpo.train(Bandit, steps=10**9, cost_limit=3.0, run_dir={str(tmp_path / "run")!r}, config=config)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for_epochs(process, tmp_path / "run")
    os.killpg(process.pid, number)  # as a terminal's Ctrl-C, which reaches the environments' processes too
    out, err = process.communicate(timeout=60)
    if number == signal.SIGTERM:
        assert process.returncode == code, err
    else:
        assert "KeyboardInterrupt" in err  # a script stops as Python scripts do; the command exits with 130
    assert f"stopped by {signal.Signals(number).name}" in out and "are saved" in out and "resume=True" in out
    assert "stopping after this step" in out  # at once, whatever it was doing
    saved = len(cvpo.Run(tmp_path / "run").metrics())
    assert not processes or err.count("Traceback") == 1  # the script's own, none of an environment
    resumed = bandit(
        tmp_path, steps=20 * (saved + 1), resume=True, config=TINY | {"episode_length": 10, "processes": processes}
    )
    assert len(resumed.metrics()) == saved + 1


def test_a_stop_is_no_error(tmp_path):
    class Stops(Bandit):
        count = 0

        def step(self, action):
            Stops.count += 1
            if Stops.count == 90:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().step(action)

    with pytest.raises(SystemExit) as caught:
        cvpo.train(
            Stops, steps=10**6, cost_limit=3.0, run_dir=tmp_path, quiet=True, config=TINY | {"episode_length": 10}
        )
    assert caught.value.code == 143
    assert not (tmp_path / "error.txt").exists() and len(cvpo.Run(tmp_path).metrics()) >= 2


def test_a_ctrl_c_during_start_up_is_not_lost(tmp_path):
    """It comes while Python imports JAX, for one, where exceptions may be swallowed."""
    script = f"""
import sys, os, signal
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "jax":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from cvpo.cli import main
main(["train", "Car-Circle", "--steps", "300", "--run-dir", {str(tmp_path / "run")!r}])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 130, done.stderr
    assert "stopping after this step" in done.stdout + done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
