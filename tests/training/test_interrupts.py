"""Signals: heard at once whatever the process does, obeyed at safe points, and the second time without one."""

import os
import select
import signal
import subprocess
import sys
import time

import pytest

from cvpo.training import interrupts as module
from cvpo.training.interrupts import Interrupted, TrainingInterrupts

PATIENCE = 300  # seconds, for machines with much else to do

# A call into C that no signal interrupts and that lets other threads run, as a compilation of XLA does.
BUSY = """
import hashlib, multiprocessing, sys, time
from cvpo.training.interrupts import TrainingInterrupts

if __name__ == "__main__":
    with TrainingInterrupts(leave=lambda: print("gone", flush=True)) as interrupts:
        child = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(300,), daemon=True)
        child.start()
        print(child.pid, flush=True)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)  # minutes
"""


@pytest.fixture
def busy(tmp_path):
    script = tmp_path / "busy.py"
    script.write_text(BUSY)
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.child = int(process.stdout.readline())  # type: ignore[attr-defined]
    time.sleep(0.3)  # it is in C now
    yield process
    process.kill()
    process.communicate()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return open(f"/proc/{pid}/stat").read().split()[2] != "Z" if os.path.exists("/proc") else True


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_process_deep_in_c_answers_at_once_and_ends_the_second_time_without_orphans(busy, number, code):
    busy.send_signal(number)
    assert select.select([busy.stderr], [], [], PATIENCE)[0], "no answer"
    assert busy.stderr.readline() + busy.stderr.readline() == "\nstopping after this step... press again to stop now\n"
    assert busy.poll() is None
    busy.send_signal(number)
    out, _ = busy.communicate(timeout=PATIENCE)
    assert busy.returncode == code and out == "gone\n"
    deadline = time.monotonic() + PATIENCE
    while alive(busy.child):
        assert time.monotonic() < deadline, "an orphan"
        time.sleep(0.05)


def test_one_sigterm_is_enough(busy):
    """It comes from a program that asks once: after some seconds the process leaves as it is."""
    busy.send_signal(signal.SIGTERM)
    busy.communicate(timeout=PATIENCE)
    assert busy.returncode == 143 and not alive(busy.child)


def test_a_signal_is_obeyed_at_the_next_check_and_the_handlers_come_back():
    before = signal.getsignal(signal.SIGINT)
    said = []
    with pytest.raises(KeyboardInterrupt), TrainingInterrupts(said.append) as interrupts:
        interrupts.check()
        os.kill(os.getpid(), signal.SIGINT)
        wait_for(said)
        with pytest.raises(Interrupted, match="SIGINT"):
            interrupts.check()
    assert len(said) == 1
    assert signal.getsignal(signal.SIGINT) is before and signal.set_wakeup_fd(-1) == -1


def test_a_signal_after_the_last_check_is_not_lost():
    said = []
    with pytest.raises(KeyboardInterrupt), TrainingInterrupts(said.append):
        os.kill(os.getpid(), signal.SIGINT)
        wait_for(said)


def test_a_command_opens_one_before_the_training_does():
    """A Ctrl-C while JAX is imported is the training's to obey, and its answer goes where the training says."""
    early, late = [], []
    with pytest.raises(KeyboardInterrupt), TrainingInterrupts(early.append):
        os.kill(os.getpid(), signal.SIGINT)
        wait_for(early)
        with TrainingInterrupts(late.append) as inner:
            inner.check()
    assert len(early) == 1 and not late


ENDING = """
import atexit, time
from cvpo.training.interrupts import TrainingInterrupts

def clean_up():
    print("cleaning up", flush=True)
    time.sleep(300)

atexit.register(clean_up)
with TrainingInterrupts(to_the_end=True) as interrupts:
    print("training", flush=True)
    while True:
        interrupts.check()
"""


def test_a_second_signal_while_a_stopped_command_cleans_up_ends_it_in_order():
    process = subprocess.Popen(
        [sys.executable, "-c", ENDING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        for line in ("training\n", "cleaning up\n"):
            assert process.stdout.readline() == line
            process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
    assert process.returncode == 143 and "Traceback" not in errors


def test_a_notebook_survives_the_second_signal(monkeypatch):
    monkeypatch.setattr(module, "_interactive", lambda: True)
    said = []
    with pytest.raises(KeyboardInterrupt), TrainingInterrupts(said.append) as interrupts:
        for count in (1, 2):
            os.kill(os.getpid(), signal.SIGINT)
            wait_for(said, count)
        interrupts.check()


def wait_for(said: list[str], count: int = 1) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(said) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
def test_two_signals_while_xla_compiles_end_the_process_in_order(tmp_path):
    """An exception raised inside of JAX while it compiles ended nearly every such process by a segmentation fault."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    for attempt, wait in enumerate((0.5, 4.0, 8.0)):
        run = tmp_path / str(attempt)
        command = [sys.executable, "-m", "cvpo", "train", "Car-Circle", "--steps", "100000", "--run-dir", str(run)]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=plain | {"CVPO_COMPILATION_CACHE": "off"},
        )
        while not (run / "metrics.jsonl").exists():  # made right before the first epoch
            assert process.poll() is None
            time.sleep(0.02)
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, out
        assert f"cvpo train --resume {run}" in out and "Traceback" not in out
