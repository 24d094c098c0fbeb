"""Sweeps in processes of this machine: kills, failures, stops."""

import signal
import subprocess
import sys

import pytest
from killing import kill_when, saved_epoch, wait_until, workers_in
from tiny_runs import EPOCH, SETTINGS, tiny, untimed

import cvpo
from cvpo.experiments import run_spec, sweep
from cvpo.runs.directory import read_config


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_a_failing_run_stops_no_other(tmp_path):
    killed, broken, other = specs = [tiny("SlowBandit", epochs=6), tiny("BrokenBandit"), tiny(seed=1)]
    directory = tmp_path / killed.path
    with kill_when(lambda: saved_epoch(directory) >= 1, lambda: workers_in(directory)) as victims:
        ended = sweep(specs, tmp_path, workers=2)
    assert len(victims) == 1
    assert [status.state for status in ended] == ["done", "failed", "done"]
    assert [status.deaths for status in ended] == [1, 0, 0]
    assert ended[1].short_error == "ValueError: this machine is out of order"
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
    assert cvpo.evaluate(tmp_path / spec.path, episodes=1)["episodes"] == 1


def test_sweeps_that_cannot_work_are_refused(tmp_path):
    with pytest.raises(ValueError, match="two runs of the sweep have the directory"):
        sweep([tiny(), tiny()], tmp_path)
    with pytest.raises(ValueError, match="workers must be >= 1, got 0"):
        sweep([tiny()], tmp_path, workers=0)
    with pytest.raises(ValueError, match="at least one run"):
        sweep([], tmp_path)
