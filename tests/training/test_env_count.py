"""How many environments a method with a replay runs side by side, where nobody says it."""

import json

import gymnasium as gym
import pytest
from toys import Bandit

import cvpo
from cvpo.experiments import RunSpec
from cvpo.experiments.spec import is_finished, run_spec
from cvpo.presets import make_config

SMALL = {"hidden": (8,), "batch_size": 8, "update_ratio": 0.001, "eval_episodes": 1, "particles": 2}


@pytest.mark.parametrize("length, count", [(10, 5), (400, 5), (500, 4), (1000, 2), (2000, 1), (5000, 1)])
def test_an_epoch_has_about_2000_steps_in_at_most_5_environments(length, count):
    for method in ("cvpo", "sac-lag", "td3-lag"):
        config = make_config(method)
        assert config.env_count(length) == count
        assert config.updates_per_epoch(length) == count * length * config.update_ratio
        assert make_config(method, overrides={"envs": 7}).env_count(length) == 7


def settings_of(run):
    return json.loads((run.path / "config.json").read_text())


def test_the_length_of_episodes_decides_and_that_is_no_changed_setting(tmp_path):
    run = cvpo.train(
        Bandit, steps=1, cost_limit=1.0, run_dir=tmp_path, quiet=True, config=SMALL | {"episode_length": 1000}
    )
    saved = settings_of(run)
    assert saved["config"]["envs"] == 2 and run.metrics()[-1]["steps"] == 2000
    assert "envs" not in saved["changed"]


def test_a_vector_environment_keeps_its_number(tmp_path):
    def make():
        return gym.vector.SyncVectorEnv([Bandit] * 3)

    run = cvpo.train(
        make, steps=1, cost_limit=1.0, run_dir=tmp_path, quiet=True, config=SMALL | {"episode_length": 1000}
    )
    assert settings_of(run)["config"]["envs"] == 3


def test_a_finished_run_is_known_as_such(tmp_path):
    settings = {"hidden": [8], "batch_size": 8, "update_ratio": 0.001, "eval_episodes": 1, "episode_length": 700}
    spec = RunSpec("Pendulum-v1", "sac", 1, config=settings)
    spec.write(tmp_path)
    run_spec(spec, tmp_path)
    assert is_finished(spec, tmp_path)
    assert not is_finished(RunSpec("Pendulum-v1", "sac", 1, config=settings | {"envs": 5}), tmp_path)
