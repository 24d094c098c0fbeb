"""Training in environments of every kind: what is stored, what goes on after a stop, and what is lost: nothing."""

import json
import os
import sys
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from saved_runs import untimed
from toys import Bandit
from worker_envs import Trouble

import cvpo
from cvpo.envs.errors import WorkerDied
from cvpo.errors import UserError
from cvpo.runs.directory import read_config

TINY = {
    "envs": 2, "eval_episodes": 3, "eval_every": 1, "hidden": (8,), "batch_size": 16, "particles": 4,
    "episode_length": 10, "random_epochs": 1,
}  # fmt: skip


@pytest.fixture(autouse=True)
def toys_for_all_interpreters(monkeypatch):
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    )


def train(env, path, steps=40, config=TINY, **options):
    return cvpo.train(env, steps=steps, cost_limit=3.0, run_dir=path, quiet=True, config=config, **options)


def test_copies_vector_environments_and_another_interpreter_train_alike(tmp_path):
    here = train(Bandit, tmp_path / "here")
    several = train(SyncVectorEnv([Bandit] * 2, autoreset_mode=AutoresetMode.SAME_STEP), tmp_path / "vector")
    assert untimed(several.path) == untimed(here.path)
    there = train(cvpo.remote("toys:Bandit", python=sys.executable), tmp_path / "there")
    assert untimed(there.path) == untimed(here.path)
    # a stopped run goes on with what it stored of its environment alone
    source = read_config(there.path)["source"]
    assert json.loads(source.removeprefix("remote:"))["env"] == "toys:Bandit"
    assert len(train(source, there.path, steps=60, resume=True).metrics()) == 3
    with pytest.raises(UserError, match=r"another interpreter.*--trust"):  # a stranger's run could name any program
        cvpo.evaluate(there.path, episodes=3)
    evaluated = cvpo.evaluate(there.path, episodes=3, trust=True)
    assert evaluated["rewards"] == cvpo.evaluate(there.path, Bandit, episodes=3)["rewards"]


def test_a_vector_environment_decides_how_many_there_are(tmp_path):
    run = train(lambda: SyncVectorEnv([Bandit] * 4), tmp_path, steps=40, config=TINY | {"envs": 99})
    assert read_config(run.path)["config"]["envs"] == 4
    assert run.metrics()[-1]["train/episodes"] == 4 and run.metrics()[-1]["eval/episodes"] == 3


def test_a_killed_worker_ends_the_run_with_its_finished_epochs_kept(tmp_path):
    config = TINY | {"processes": True, "episode_length": 5, "envs": 2}
    train(partial(Trouble, "", 1), tmp_path, steps=10, config=config)
    seeds = np.random.SeedSequence([0, 0, 1]).generate_state(2)  # of the second epoch
    killer = partial(Trouble, "kill", int(seeds[1]))
    with pytest.raises(WorkerDied, match=r"Trouble, environment 1 of 2, at step 3 of its epoch, was killed by SIGKILL"):
        train(killer, tmp_path / "killed", steps=40, config=config)
    assert untimed(tmp_path / "killed") == untimed(tmp_path)


def test_runs_of_two_environments_are_told_apart(tmp_path):
    makers = [
        partial(Bandit, size=1),
        partial(Bandit, size=2),
        lambda: Bandit(1),
        lambda: Bandit(2),
        Bandit,
        cvpo.remote("toys:Bandit", python=sys.executable, size=1),
    ]
    from cvpo.envs.adapter import Environments

    seen = []
    for i, make in enumerate(makers):
        with Environments(make, 1, episode_length=10, num_costs=2 if i in (1, 3) else 1) as environments:
            seen.append(json.dumps(environments.identity, sort_keys=True))
    assert len(set(seen)) == len(makers)

    def size(n):
        return lambda: gym.wrappers.TimeLimit(Bandit(), n)

    from cvpo.envs.identity import identity

    spaces = {"observation": {}, "action": {}}
    assert identity(size(5), spaces) != identity(size(6), spaces)
    assert identity(size(5), spaces) == identity(size(5), spaces)


def test_a_name_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = cvpo.train(Bandit, steps=20, cost_limit=3.0, quiet=True, config=TINY, name="warehouse-2")
    assert str(run.path) == "runs/warehouse-2/cvpo/seed-0"
    config = read_config(run.path)
    assert config["env"] == "warehouse-2" and config["environment"]["made_by"] == "toys.Bandit"
