"""Runs of seconds on a toy."""

import time

from toys import Bandit

import cvpo

TINY = {
    "envs": 2,
    "eval_every": 1,
    "hidden": (8,),
    "batch_size": 16,
    "particles": 4,
    "eval_episodes": 2,
    "update_ratio": 0.05,
}


def bandit(tmp_path, steps=80, **options):
    options = {
        "cost_limit": 3.0,
        "run_dir": tmp_path / "run",
        "quiet": True,
        "config": TINY | {"episode_length": 10},
    } | options
    return cvpo.train(Bandit, steps=steps, **options)


def wait_for_epochs(process, directory, epochs=2):
    """Until a run in a process of its own has written as many."""
    metrics = directory / "metrics.jsonl"
    while not metrics.exists() or metrics.read_text().count("\n") < epochs:
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.002)
