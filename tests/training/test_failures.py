"""Runs in which something breaks: what is said of it, and what is kept."""

import os
from pathlib import Path

import numpy as np
import pytest
from bandit_runs import TINY, bandit
from saved_runs import arrays
from toys import Bandit, Menu

import cvpo
from cvpo.envs.errors import BadEnvironment
from cvpo.envs.rollout import Diverged
from cvpo.errors import UserError
from cvpo.runs.directory import read_metrics


@pytest.mark.parametrize(("env", "algorithm"), [(Bandit, "ppo-lag"), (Menu, "ppo-lag"), (Bandit, "sac-lag")])
def test_a_learner_that_diverges_is_told_so_and_not_saved(tmp_path, env, algorithm):
    settings = {"episode_length": 10, "hidden": (8,), "envs": 2, "eval_episodes": 1, "policy_learning_rate": 1e38}
    with pytest.raises(Diverged, match="learning diverged"):
        cvpo.train(env, algorithm, steps=400, cost_limit=3.0, run_dir=tmp_path, quiet=True, config=settings)
    finished = len(read_metrics(tmp_path))
    assert finished < 20  # the epoch that diverged is not among them, nor is its policy
    assert (tmp_path / "policy").exists() == (finished > 0)
    if finished:
        assert all(np.isfinite(array).all() for array in arrays(tmp_path).values())


def test_a_non_finite_reward_stops_the_run_with_its_epochs_saved(tmp_path):
    class Breaks(Bandit):
        count = 0

        def step(self, action):
            obs, reward, terminated, truncated, info = super().step(action)
            Breaks.count += 1
            return obs, (np.nan if Breaks.count > 90 else reward), terminated, truncated, info

    with pytest.raises(BadEnvironment, match="non-finite reward, nan, in environment"):
        cvpo.train(
            Breaks, steps=200, cost_limit=3.0, run_dir=tmp_path, quiet=True, config=TINY | {"episode_length": 10}
        )
    assert len(cvpo.Run(tmp_path).metrics()) == 2
    assert max((tmp_path / "checkpoints").glob("epoch-*")).name == "epoch-000001.safetensors"


def test_a_bug_in_an_environment_keeps_its_traceback_and_the_run_keeps_its_epochs(tmp_path):
    class Explodes(Bandit):
        count = 0

        def step(self, action):
            Explodes.count += 1
            if Explodes.count > 90:
                raise ZeroDivisionError("the simulator exploded")
            return super().step(action)

    def train(**options):
        config = TINY | {"episode_length": 10}
        return cvpo.train(Explodes, steps=100, cost_limit=3.0, run_dir=tmp_path, quiet=True, config=config, **options)

    with pytest.raises(ZeroDivisionError, match="the simulator exploded"):
        train()
    text = (tmp_path / "error.txt").read_text()
    assert 'raise ZeroDivisionError("the simulator exploded")' in text and Path(__file__).name in text
    assert len(cvpo.Run(tmp_path).metrics()) == 2
    Explodes.count = -1000
    assert len(train(resume=True).metrics()) == 5
    assert not (tmp_path / "error.txt").exists()  # it spoke of an earlier process


def test_a_full_disk_leaves_the_previous_checkpoint(tmp_path, monkeypatch):
    real, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > 20:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises((UserError, OSError)) as caught:
        bandit(tmp_path, steps=400)
    assert "No space left" in str(caught.value)
    monkeypatch.undo()
    saved = [path.name for path in (tmp_path / "run" / "checkpoints").glob("epoch-*")]
    assert saved
    assert len(bandit(tmp_path, steps=400, resume=True).metrics()) == 20
