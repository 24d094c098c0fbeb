"""Sweeps in processes of this machine: kills, failures, stops."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from killing import kill_when, saved_epoch, wait_until, workers_in
from saved_runs import untimed
from tiny_runs import EPOCH, SETTINGS, tiny

import cvpo
from cvpo.errors import UserError
from cvpo.experiments import run_spec, sweep
from cvpo.experiments.backends.worker_process import WorkerProcess
from cvpo.experiments.claim import claimed
from cvpo.runs.directory import locked, read_config


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_a_failing_run_stops_no_other(tmp_path):
    killed, broken, other = specs = [tiny("SlowBandit", epochs=6), tiny("BrokenBandit"), tiny(seed=1)]
    directory = tmp_path / killed.path
    with kill_when(lambda: saved_epoch(directory) >= 1, lambda: workers_in(directory)) as victims:
        ended = sweep(specs, tmp_path, workers=2)
    assert len(victims) == 1
    assert [status.state for status in ended] == ["done", "failed", "done"]
    assert [status.deaths for status in ended] == [1, 0, 0]
    assert ended[1].short_error.startswith("ValueError: this machine is out of order This was in BrokenBandit")
    assert "in step" in (tmp_path / broken.path / "error.txt").read_text()  # the traceback
    run_spec(killed, tmp_path / "undisturbed")
    assert untimed(directory) == untimed(tmp_path / "undisturbed")
    assert ended[0].steps == 6 * EPOCH and ended[2].steps == other.steps


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_sweep_that_was_stopped_or_killed_goes_on(tmp_path, number):
    spec = tiny("SlowBandit", epochs=8)
    directory = tmp_path / spec.path
    arguments = f"--tasks {spec.env} --algorithms ppo-lag --steps {spec.steps} --seeds 1 --cost-limit 3".split()
    arguments += ["--set", "envs=2", "hidden=[4]", "eval_episodes=1", "--output", str(tmp_path)]
    command = [sys.executable, "-m", "cvpo", "sweep", *arguments]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    wait_until(lambda: saved_epoch(directory) >= 1)
    first.send_signal(number)
    output, _ = first.communicate()
    assert first.returncode == (130 if number == signal.SIGINT else -number)
    assert ("the same command goes on" in output) == (number == signal.SIGINT)
    wait_until(lambda: not workers_in(directory))
    assert 1 <= saved_epoch(directory) < 7

    second = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    assert "1 of 1 runs are done" in second.stdout
    run_spec(spec, tmp_path / "undisturbed")
    assert untimed(directory) == untimed(tmp_path / "undisturbed")


def test_finished_runs_are_kept_and_failed_ones_tried_again(tmp_path, capsys):
    done, broken = tiny(), tiny("BrokenBandit")
    run_spec(done, tmp_path / done.path)
    done.write(tmp_path / done.path)
    written = (tmp_path / done.path / "metrics.jsonl").stat().st_mtime_ns
    ended = sweep([done, broken], tmp_path, discard_checkpoints=True)
    assert [status.state for status in ended] == ["done", "failed"]
    assert not (tmp_path / done.path / "worker.log").exists()  # nothing was started for it
    assert (tmp_path / done.path / "metrics.jsonl").stat().st_mtime_ns == written
    assert not (tmp_path / done.path / "checkpoints").exists()
    assert "failed: " + str(broken.path) in capsys.readouterr().out


def test_checkpoints_are_discarded_though_all_is_done(tmp_path):
    spec = tiny(algorithm="sac-lag", config=SETTINGS | {"batch_size": 8, "update_ratio": 0.05})
    run_spec(spec, tmp_path / spec.path)
    spec.write(tmp_path / spec.path)
    checkpoints = tmp_path / spec.path / "checkpoints"
    sweep([spec], tmp_path)
    assert checkpoints.exists()
    sweep([spec], tmp_path, discard_checkpoints=True)
    assert not checkpoints.exists()
    # module:id is what makes the environment again
    assert read_config(tmp_path / spec.path)["source"] == spec.env
    assert cvpo.evaluate(tmp_path / spec.path, episodes=1, trust=True)["episodes"] == 1


def test_a_kill_is_no_failure_of_the_run_though_an_error_of_before_lies_there(tmp_path):
    spec = tiny()
    spec.write(tmp_path)
    process = WorkerProcess(tmp_path, 1)
    wait_until(lambda: workers_in(tmp_path))
    (tmp_path / "error.txt").write_text("of an earlier attempt")
    for worker in workers_in(tmp_path):
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: (ended := process.poll()) is not None and ended.kind == "died" and "SIGKILL" in ended.error)


@pytest.mark.slow
def test_a_full_disk_in_one_run_ends_that_run_and_not_the_sweep(tmp_path):
    ended = sweep([tiny("DiskFullBandit"), tiny()], tmp_path, workers=1)
    assert [status.state for status in ended] == ["failed", "done"]
    assert ended[0].deaths == 0  # it was not tried again and again
    assert "could not be written" in ended[0].short_error and "free some space" in ended[0].short_error


def test_a_run_that_cannot_be_started_or_noted_fails_alone(tmp_path, capsys):
    broken, other = tiny(), tiny(seed=1)
    (tmp_path / broken.path).parent.mkdir(parents=True)
    (tmp_path / broken.path).write_text("a file where the run's directory belongs")
    run_spec(other, tmp_path / other.path)
    other.write(tmp_path / other.path)
    ended = sweep([broken, other], tmp_path)
    assert [status.state for status in ended] == ["failed", "done"]
    assert "could not write" in ended[0].error


def test_checkpoints_of_a_run_in_training_are_not_discarded(tmp_path):
    spec = tiny()
    run_spec(spec, tmp_path / spec.path)
    spec.write(tmp_path / spec.path)
    checkpoints = tmp_path / spec.path / "checkpoints"
    with locked(tmp_path / spec.path):  # someone trains it for longer
        sweep([spec], tmp_path, discard_checkpoints=True)
        assert checkpoints.exists()
    sweep([spec], tmp_path, discard_checkpoints=True)
    assert not checkpoints.exists()


HOLD = (
    "import sys; from pathlib import Path; from cvpo.experiments.claim import claimed\n"
    "with claimed(Path(sys.argv[1]), [Path('A/cvpo/seed-0'), Path('B/cvpo/seed-0')]):\n"
    "    print('held', flush=True); input()"
)


def test_no_two_sweeps_train_the_same_runs(tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], **pipes) as other:
        assert other.stdout.readline() == "held\n"
        with claimed(tmp_path, [Path("A/cvpo/seed-1")]):  # other runs of the same output are free
            pass
        with (
            pytest.raises(
                UserError, match=rf"\(process {other.pid} of .*\) is training B/cvpo/seed-0 in {tmp_path}; wait"
            ),
            claimed(tmp_path, [Path("B/cvpo/seed-0"), Path("C/cvpo/seed-0")]),
        ):
            pass
        other.kill()
    with claimed(tmp_path, [Path("B/cvpo/seed-0")]):
        pass
    assert [path.name for path in (tmp_path / ".sweeps").iterdir()] == ["lock"]


def test_a_sweep_that_ends_while_another_looks_takes_no_runs(tmp_path, monkeypatch):
    flock = fcntl.flock

    def flock_then_end(descriptor, operation):
        """The owner removes its list right after the lock on it was refused."""
        try:
            flock(descriptor, operation)
        except BlockingIOError:
            next((tmp_path / ".sweeps").glob("*.json")).unlink()
            raise

    with claimed(tmp_path, [Path("A/cvpo/seed-0")]):
        monkeypatch.setattr(fcntl, "flock", flock_then_end)
        with claimed(tmp_path, [Path("A/cvpo/seed-0")]):
            pass


def test_sweeps_that_cannot_work_are_refused(tmp_path):
    with pytest.raises(ValueError, match="two runs of the sweep have the directory"):
        sweep([tiny(), tiny()], tmp_path)
    with pytest.raises(ValueError, match="workers must be >= 1, got 0"):
        sweep([tiny()], tmp_path, workers=0)
    with pytest.raises(ValueError, match="at least one run"):
        sweep([], tmp_path)
