"""Runs of seconds on a toy, and what is compared of them."""

from safetensors.numpy import load_file
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


def untimed(metrics):
    return [{k: v for k, v in line.items() if k != "wall_seconds" and not k.startswith("time/")} for line in metrics]


def weights(path):
    newest = max((path / "checkpoints").glob("epoch-*.safetensors"))
    arrays = load_file(newest) | load_file(path / "policy" / "policy.safetensors")
    return [arrays[name] for name in sorted(arrays)]
