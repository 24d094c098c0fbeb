"""Inspection: numbers that add up, pictures and films that are there, trajectories that fit the episodes."""

import json

import jax
import numpy as np
import pytest
from PIL import Image
from policies.test_evaluate import timed

import cvpo
from cvpo.algorithms.base import Spec
from cvpo.algorithms.registry import build
from cvpo.cli import main
from cvpo.envs.adapter import Environments
from cvpo.policies.files import PolicyWriter
from cvpo.policies.inspect import inspect
from cvpo.presets import make_config
from cvpo.runs.directory import RunDirectory


@pytest.fixture(scope="module")
def circle(tmp_path_factory):
    """A policy that knows nothing, on a built-in task."""
    run = tmp_path_factory.mktemp("circle")
    config = make_config("td3", overrides={"hidden": (8,), "normalize_observations": False})
    with Environments("Car-Circle", 1) as environments:
        spec = Spec(environments.obs_size, environments.action_size, False, (20.0,), environments.episode_length)
        algorithm = build("td3", config, spec)
        params = jax.tree.map(lambda x: 2.0 * x, algorithm.policy(algorithm.init(jax.random.key(4))))
        params = (*params[:-1], (params[-1][0], np.array([9.0, 0.02], np.float32)))  # full speed ahead
        with RunDirectory.create(run, {"steps": 1}) as directory:
            directory.append_metrics({"epoch": 0})
        PolicyWriter(run, algorithm, "td3", config, spec, environments).write(params, 0)
    return run


def test_a_built_in_task_is_inspected_in_place_and_time(circle, tmp_path):
    files = inspect(circle, tmp_path, episodes=3, films=1, trajectories=True)
    assert {file.stem for file in files} == {"violations", "trajectories", "worst_1"}
    result = cvpo.evaluate(circle, episodes=3)
    numbers = json.loads((tmp_path / "violations.json").read_text())
    np.testing.assert_allclose(np.ravel(numbers["episode_costs"]), result["costs"])
    assert numbers["cost_by_cause"]["cost_out_of_bounds"] == pytest.approx(result["cost"]) and result["cost"] > 0
    assert sum(numbers["cost_by_time"]["cost_out_of_bounds"]) == pytest.approx(result["cost"])
    with np.load(tmp_path / "trajectories.npz") as steps:
        assert steps["place"].shape == (3, 300, 2) and steps["observation"].shape == (3, 300, 8)
        np.testing.assert_allclose(steps["costs"].sum((1, 2)), result["costs"])
        # a step costs where |x| > 6; the place is the one before the step
        costly = steps["costs"][..., 0] > 0
        assert (np.abs(steps["place"][costly][:, 0]) > 5.0).all()
    with Image.open(tmp_path / "violations.png") as picture:
        assert picture.width > 3 * picture.height * 0.8 and len(picture.convert("RGB").getcolors(1 << 24)) > 20


def test_an_environment_without_pictures_is_inspected_all_the_same(made, tmp_path):
    files = inspect(made("cvpo").run, tmp_path, timed(), episodes=4, films=1)
    assert [file.name for file in files] == ["violations.png", "violations.json", "films.txt"]
    numbers = json.loads((tmp_path / "violations.json").read_text())
    assert set(numbers["cost_by_cause"]) == {"cost_heat", "cost_wear"}


def test_the_commands_for_policies(circle, tmp_path, capsys):
    main(["evaluate", str(circle), "--episodes", "2", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert result["episodes"] == 2 and result["safe"] in (True, False, None)
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", str(circle), "--episodes", "2", "--require-safe", "--cost-limit", "0.5"])
    assert ended.value.code == 3
    assert "limit is 0.5" in capsys.readouterr().out
    main(["evaluate", str(circle), str(circle), "--episodes", "2"])
    assert "+0 (+0 to +0)" in capsys.readouterr().out
    main(["export", str(circle), "--format", "c", "--output", str(tmp_path / "p.h")])
    assert "policy(const float observation[]" in (tmp_path / "p.h").read_text()
    main(["record", str(circle), "--episodes", "1", "--output", str(tmp_path / "d.npz")])
    with np.load(tmp_path / "d.npz") as data:
        assert len(data["reward"]) == 300
    for arguments in (["export", str(tmp_path)], ["evaluate", str(circle), "--which", "best"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 1
        assert "policy" in capsys.readouterr().err
