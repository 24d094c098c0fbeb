"""Navigation tasks of a user's own."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cvpo
from cvpo.errors import BadValue
from cvpo.tasks import rejection
from cvpo.tasks.described import parse, read, to_dict
from cvpo.tasks.registry import as_task, find_task
from cvpo.tasks.safety_gym import SAFETY_GYM
from cvpo.tasks.vector_env import TaskVectorEnv

TASK = {
    "name": "slalom",
    "robot": "Car",
    "reward": "goal",
    "arena": 1.8,
    "episode_length": 30,
    "cost_limit": 3,
    "goal": {},
    "pillars": {"places": [[0.5, 0.5], [-0.5, -0.5]], "cost": True},
    "hazards": {"number": 3, "size": 0.15, "cost": True},
    "gremlins": {"number": 1, "rigid": True, "cost": True},
    "walls": {"y": 1.6},
}


@pytest.mark.parametrize("name", SAFETY_GYM)
def test_the_built_in_tasks_are_such_descriptions(name):
    described = json.loads(json.dumps(to_dict(f"my-{name}", SAFETY_GYM[name])))
    assert parse(described) == (f"my-{name}", SAFETY_GYM[name])


def test_a_described_task_runs_as_it_says():
    env = gymnasium.make_vec("cvpo/Navigation-v0", num_envs=4, task=TASK)
    obs, _ = env.reset(seed=0)
    world = env.world
    # the Car's 24 senses, and a lidar for each kind
    assert obs.shape == (4, 24 + 4 * 16)
    np.testing.assert_allclose(world.objects[:, 1:3], np.tile([[0.5, 0.5], [-0.5, -0.5]], (4, 1, 1)), atol=1e-8)
    for step in range(30):
        _, _, terminated, truncated, infos = env.step(env.action_space.sample())
        assert not terminated.any() and truncated.all() == (step == 29)
    assert {key for key in infos if key.startswith("cost")} == {
        "cost", "cost_pillars", "cost_hazards", "cost_gremlins", "cost_out_of_boundary",
    }  # fmt: skip


def test_gymnasium_finds_nothing_wrong_with_a_described_task():
    check_env(gymnasium.make("cvpo/Navigation-v0", task=TASK, render_mode="rgb_array").unwrapped)


def test_a_toml_file_its_dict_and_its_source_are_one_task(tmp_path):
    path = tmp_path / "zigzag.toml"
    path.write_text('robot = "Point"\nreward = "push"\n[goal]\n[push_box]\n[vases]\nnumber = 2\ncost = true\n')
    task = find_task(str(path))
    assert task.name == "zigzag" and task.observation_size == 12 + 3 * 16
    assert find_task(task.source) == task
    assert as_task(task.options["task"]) == task
    TaskVectorEnv(path, 1).reset(seed=0)


def test_costs_and_places_of_a_described_task_take_effect():
    described = {
        "robot": "Point", "reward": "run", "arena": 2.0, "start": [0, 0, 0, 0], "start_keepout": 0,
        "hazards": {"places": [[0.1, 0.0]], "size": 0.2, "cost": True, "keepout": 0},
    }  # fmt: skip
    env = TaskVectorEnv(described, 1)
    env.reset(seed=0)
    assert env.step(np.zeros((1, 2)))[4]["cost_hazards"] == 1.0
    free = described | {"hazards": described["hazards"] | {"cost": False}}
    env = TaskVectorEnv(free, 1)
    env.reset(seed=0)
    assert env.step(np.zeros((1, 2)))[4]["cost"] == 0.0


def without(key):
    return {name: value for name, value in TASK.items() if name != key}


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (TASK | {"hazard": {}}, "no field 'hazard'; did you mean 'hazards'"),
        (without("robot"), "robot must be one of Point, Car, got None"),
        (TASK | {"robot": "Boat"}, "robot must be one of Point, Car, got 'Boat'"),
        (TASK | {"reward": "gold"}, "reward must be one of goal, button, push, circle, run, got 'gold'"),
        (without("goal"), "goal is missing"),
        (TASK | {"reward": "push"}, "push_box is missing"),
        (TASK | {"arena": 0}, "arena must be > 0, got 0"),
        (TASK | {"arena": "wide"}, "arena must be a number, got 'wide'"),
        (TASK | {"episode_length": 2.5}, "episode_length must be a whole number >= 1, got 2.5"),
        (TASK | {"hazards": 3}, "hazards must be a table"),
        (TASK | {"hazards": {"number": -1}}, "hazards.number must be a whole number >= 0, got -1"),
        (TASK | {"hazards": {"number": True}}, "hazards.number must be a whole number"),
        (TASK | {"hazards": {"size": float("nan")}}, "hazards.size must be a number, got nan"),
        (TASK | {"hazards": {"cost": "yes"}}, "hazards.cost must be true or false, got 'yes'"),
        (TASK | {"hazards": {"radius": 1}}, "hazards has no field 'radius'"),
        (TASK | {"hazards": {"keepout": 2.0}}, "hazards.keepout must be smaller than arena, 1.8, got 2"),
        (TASK | {"pillars": {"number": 3, "places": [[0, 0]]}}, "pillars.places must be 3"),
        (TASK | {"pillars": {"places": [[0, 0, 0]]}}, "pillars.places must be a list of"),
        (TASK | {"goal": {"cost": True}}, "goal.cost must be left out"),
        (TASK | {"hazards": {"rigid": True}}, "hazards.rigid must be left out or false: only gremlins can be rigid"),
        (TASK | {"vases": {"rigid": True}}, "vases.rigid must be left out or false"),
        (TASK | {"reward": "push", "push_box": {"rigid": True}}, "push_box.rigid must be left out or false"),
        (TASK | {"goal": {"number": 2}}, "goal.number must be 1, got 2"),
        (TASK | {"start": [1, 1, 0, 0]}, "start must be"),
        (TASK | {"walls": {"x": -1}}, "walls.x must be > 0, got -1"),
        (TASK | {"name": "Point-Goal"}, "name must be another"),
    ],
)
def test_mistakes_are_named_by_their_field(description, message):
    with pytest.raises(BadValue, match=message):
        find_task(description)


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(BadValue, match="there is no file"):
        find_task(str(tmp_path / "none.toml"))
    broken = tmp_path / "broken.toml"
    broken.write_text("robot = ")
    with pytest.raises(BadValue, match="describes no task"):
        read(broken)


def test_objects_that_do_not_fit_are_reported(monkeypatch):
    monkeypatch.setattr(rejection, "_LAYOUTS", 20)
    crowd = {"robot": "Point", "reward": "goal", "arena": 1.0, "goal": {}, "pillars": {"number": 12}}
    with pytest.raises(RuntimeError, match="make the arena larger"):
        TaskVectorEnv(crowd, 1).reset(seed=0)


def test_a_run_on_a_described_task_needs_its_file_only_once(tmp_path):
    """Trained from the file; evaluated and filmed when that is gone."""
    path = tmp_path / "short.toml"
    path.write_text(
        'robot = "Point"\nreward = "goal"\nepisode_length = 20\ncost_limit = 3\n'
        "[goal]\n[hazards]\nnumber = 2\ncost = true\n"
    )
    settings = {"envs": 2, "hidden": (8,), "eval_episodes": 2, "minibatch_size": 20}
    run = cvpo.train(str(path), "ppo-lag", steps=40, config=settings, run_dir=tmp_path / "run", quiet=True)
    path.unlink()
    result = cvpo.evaluate(run.path, episodes=3)
    assert result["episodes"] == 3 and result["cost_limit"] == 3.0
    assert cvpo.render(run.path).stat().st_size > 0
