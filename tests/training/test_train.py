"""What a run trains in and what it writes."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from bandit_runs import TINY, bandit
from toys import Bandit

import cvpo
from cvpo.presets import make_config
from cvpo.runs.directory import read_config


def test_a_run_says_which_settings_are_not_the_presets(whole):
    config, preset = read_config(whole.path), make_config("cvpo")
    changed = {**TINY, "episode_length": 10}
    assert config["changed"].keys() == {name for name, value in changed.items() if value != getattr(preset, name)}
    assert config["changed"]["batch_size"] == preset.batch_size != config["config"]["batch_size"]


def test_a_run_writes_what_it_documents(whole):
    metrics = whole.metrics()
    assert [line["epoch"] for line in metrics] == [0, 1, 2, 3]
    assert [line["steps"] for line in metrics] == [20, 40, 60, 80]
    documented = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    assert [key for key in metrics[-1] if f"`{key}`" not in documented] == []
    config = read_config(whole.path)
    assert config["config"]["batch_size"] == 16 and config["seed"] == 0 and config["provenance"]["versions"]["jax"]
    # a reward of a and a cost of (a + 1) / 2 in each of ten rounds
    for line in metrics:
        assert line["train/cost"] == pytest.approx((line["train/reward"] + 10) / 2, abs=1e-4)
    total = sum(line["train/cost"] * line["train/episodes"] for line in metrics)
    assert metrics[-1]["train/cumulative_cost"] == pytest.approx(total, rel=1e-5)


def test_an_epoch_without_updates_has_no_metrics_of_updates(tmp_path):
    first, second = bandit(tmp_path, steps=40, config=TINY | {"episode_length": 10, "update_ratio": 0.01}).metrics()
    assert "critic/reward_value" not in first and "critic/reward_value" in second


def test_tensorboard_events(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = bandit(tmp_path, tensorboard=True)
    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    rewards = [(event.step, event.value) for event in events.Scalars("train/reward")]
    assert rewards == [(line["steps"], pytest.approx(line["train/reward"])) for line in run.metrics()]


def test_a_custom_environment_of_twenty_lines_trains(tmp_path):
    class Walk(gym.Env):
        observation_space = gym.spaces.Box(-5, 5, (1,), np.float32)
        action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.x, self.time = self.np_random.uniform(-1, 1, 1).astype(np.float32), 0
            return self.x, {}

        def step(self, action):
            self.x = np.clip(self.x + 0.3 * action, -5, 5).astype(np.float32)
            self.time += 1
            return self.x, float(self.x[0]), False, self.time == 20, {"cost": float(self.x[0] > 1)}

    run = cvpo.train(
        Walk, steps=6000, cost_limit=2.0, run_dir=tmp_path, quiet=True,
        config={
            "episode_length": 20, "envs": 10, "eval_every": 1, "hidden": (32,), "batch_size": 64, "update_ratio": 0.5,
            "gamma": 0.9,
        },
    )  # fmt: skip
    first, last = run.metrics()[0], run.metrics()[-1]
    assert last["eval/reward"] > first["eval/reward"] + 5
    again = cvpo.evaluate(run.path, Walk, episodes=5, seed=1)
    assert again["reward"] > 0 and len(again["costs"]) == 5


def test_several_constraints_have_metrics_of_their_own(tmp_path):
    run = cvpo.train(
        lambda: Bandit(2), steps=40, cost_limit=[2.0, 40.0], run_dir=tmp_path, quiet=True,
        config=TINY | {"episode_length": 10},
    )  # fmt: skip
    last = run.metrics()[-1]
    names = ("train/cost", "eval/cost", "train/cumulative_cost", "estep/multiplier", "estep/threshold")
    assert all(f"{name}_{i}" in last and name not in last for name in names for i in (0, 1))
    result = cvpo.evaluate(run.path, lambda: Bandit(2), episodes=3)
    assert all(heavy > 2.0 and light < 40.0 for heavy, light in result["costs"])
    assert result["satisfied"] == 0.0


def test_a_task_is_the_same_by_its_gymnasium_id(tmp_path):
    runs = [
        cvpo.train(env, steps=800, run_dir=tmp_path / str(number), quiet=True, config=TINY)
        for number, env in enumerate(("Car-Goal", "cvpo/CarGoal-v0"))
    ]
    named, by_id = (read_config(run.path) for run in runs)
    assert named["cost_limit"] == by_id["cost_limit"] == [10.0]
    assert all(named[key] == by_id[key] for key in ("env", "source", "config"))


def test_numpys_numbers_are_numbers(tmp_path):
    config = TINY | {"episode_length": np.int64(10), "batch_size": np.int32(16), "hidden": np.array([8])}
    run = bandit(tmp_path, steps=np.int64(40), seed=np.uint8(1), cost_limit=np.float32(3.0), config=config)
    assert len(run.metrics()) == 2
    saved = read_config(run.path)
    assert saved["config"]["batch_size"] == 16 and saved["config"]["hidden"] == [8] and saved["seed"] == 1
