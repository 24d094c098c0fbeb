"""Runs that go on where they stopped, bit for bit, and directories that hold another run."""

import json
import shutil
import signal
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from bandit_runs import TINY, bandit, wait_for_epochs
from saved_runs import assert_same_arrays, untimed
from toys import Bandit

import cvpo
from cvpo.runs.checkpoint import CheckpointStore
from cvpo.runs.directory import RunDirectoryError, read_config, read_metrics


def test_a_stopped_run_goes_on_bit_for_bit(tmp_path, whole):
    bandit(tmp_path, steps=40)
    parts = bandit(tmp_path, resume=True)
    assert untimed(parts.path) == untimed(whole.path)
    assert_same_arrays(whole.path, parts.path)


def test_a_run_killed_right_after_its_last_checkpoint_has_its_last_policy(tmp_path, monkeypatch, whole):
    save = CheckpointStore.save

    def save_and_die(store, epoch, *state):
        save(store, epoch, *state)
        if epoch == 3:
            raise SystemExit

    monkeypatch.setattr(CheckpointStore, "save", save_and_die)
    with pytest.raises(SystemExit):
        bandit(tmp_path)
    resumed = bandit(tmp_path, resume=True)  # no epoch is left that would write anything
    assert_same_arrays(whole.path, resumed.path)


def test_kill_nine_and_resume_on_a_real_task(tmp_path):
    """Killed in the middle of an epoch, a run ends with the metrics and weights of one that was never stopped."""

    def command(path, *more):
        flags = "--envs 2 --hidden 8 --batch-size 16 --particles 4 --eval-episodes 1 --update-ratio 0.05"
        begin = ["train", "Car-Circle", "--steps", "2400", "--run-dir", str(path), *flags.split()]
        return [sys.executable, "-m", "cvpo", *(more or begin), "--quiet"]

    subprocess.run(command(tmp_path / "whole"), check=True)
    process = subprocess.Popen(command(tmp_path / "killed"))
    wait_for_epochs(process, tmp_path / "killed")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(read_metrics(tmp_path / "killed")) < 4
    subprocess.run(command(None, "train", "--resume", str(tmp_path / "killed")), check=True)
    assert untimed(tmp_path / "killed") == untimed(tmp_path / "whole")
    assert_same_arrays(tmp_path / "whole", tmp_path / "killed")


def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(tmp_path, whole):
    run = bandit(tmp_path, steps=60)
    newest = max((run.path / "checkpoints").glob("epoch-*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-10])
    with pytest.warns(UserWarning, match="epoch 2 is passed over"):
        resumed = bandit(tmp_path, steps=80, resume=True)
    assert untimed(resumed.path) == untimed(whole.path)


def test_an_extended_run_knows_for_how_long(tmp_path):
    run = bandit(tmp_path, steps=20)
    bandit(tmp_path, steps=40, resume=True)
    assert read_config(run.path)["steps"] == 40
    bandit(tmp_path, steps=20, resume=True)  # nothing to train, and nothing untrained
    assert len(run.metrics()) == 2 and read_config(run.path)["steps"] == 40


def test_resuming_to_fewer_steps_says_that_there_is_nothing_to_do(tmp_path, capsys):
    bandit(tmp_path, steps=60)
    run = bandit(tmp_path, steps=20, resume=True, quiet=False)
    out = capsys.readouterr().out
    assert "the run has 60 steps already; ask for more (--steps) to continue it" in out
    assert len(run.metrics()) == 3 and len(bandit(tmp_path, steps=80, resume=True).metrics()) == 4


def test_a_directory_with_a_run_is_never_overwritten_unasked(tmp_path):
    mark = bandit(tmp_path, steps=20).path / "finished.json"
    mark.write_text("{}")
    with pytest.raises(
        RunDirectoryError, match=r"already holds a run; resume it .*, choose another directory .*, or delete it"
    ):
        bandit(tmp_path, steps=20)
    assert mark.exists() and len(bandit(tmp_path, steps=40, overwrite=True).metrics()) == 2
    assert not mark.exists()  # it spoke of the run before


def test_a_run_without_checkpoints_is_not_begun_anew(tmp_path):
    run = bandit(tmp_path, steps=40)
    shutil.rmtree(run.path / "checkpoints")
    with pytest.raises(RunDirectoryError, match="holds 2 epochs and no checkpoint"):
        bandit(tmp_path, resume=True)
    assert len(run.metrics()) == 2 and read_config(run.path)["steps"] == 40


def test_resuming_with_other_settings_is_refused(tmp_path):
    bandit(tmp_path, steps=20)
    with pytest.raises(RunDirectoryError, match="batch_size is 16 there and 17 here"):
        bandit(tmp_path, resume=True, config=TINY | {"episode_length": 10, "batch_size": 17})
    with pytest.raises(RunDirectoryError, match="seed is 0 there and 1 here"):
        bandit(tmp_path, resume=True, seed=1)
    with pytest.raises(RunDirectoryError, match="algorithm is 'cvpo' there and 'sac-lag' here"):
        bandit(tmp_path, resume=True, algorithm="sac-lag", config={"episode_length": 10})


def test_a_checkpoint_of_another_observation_size_is_refused(tmp_path):
    bandit(tmp_path, steps=20)

    class Wider(Bandit):
        def __init__(self):
            super().__init__()
            self.observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)

        def _look(self):
            return np.zeros(3, np.float32)

    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["env"] = "Wider"
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    other = r"holds another run: environment is .*'box': \[2\].* there and .*'box': \[3\].* here"
    with pytest.raises(RunDirectoryError, match=other):
        cvpo.train(
            Wider, steps=40, cost_limit=3.0, run_dir=tmp_path / "run", quiet=True, resume=True,
            config=TINY | {"episode_length": 10},
        )  # fmt: skip
