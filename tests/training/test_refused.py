"""What a run and its evaluation refuse, and what a user is told."""

import gymnasium as gym
import pytest
from bandit_runs import bandit
from toys import Bandit, Menu

import cvpo
from cvpo import cli
from cvpo.algorithms.offpolicy import sac
from cvpo.envs.errors import BadEnvironment
from cvpo.errors import BadValue
from cvpo.policies.render import render


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "cpvo"}, "no algorithm 'cpvo'; did you mean 'cpo' or 'cvpo'"),
        ({"cost_limit": -3}, "cost_limit must be >= 0, got -3"),
        ({"cost_limit": float("nan")}, "cost_limit must be >= 0, got nan"),
        ({"cost_limit": None}, "cvpo needs a cost_limit"),
        ({"steps": 0}, "steps must be >= 1, got 0"),
        ({"seed": -1}, "seed must be >= 0, got -1"),
        ({"preset": "papre"}, "no preset 'papre'; did you mean 'paper'"),
        ({"config": {"batch_sise": 3}}, "no setting 'batch_sise'; did you mean 'batch_size'"),
        ({"config": {"batch_size": 2.5}}, "batch_size must be int, got 2.5"),
        ({"config": {"gamma": 1.5}}, "gamma must be between 0.0 and 1.0, got 1.5"),
        ({"config": {"replay_capacity": 10, "episode_length": 10}}, "replay_capacity 10 does not hold one epoch"),
    ],
)
def test_bad_settings(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        bandit(tmp_path, **options)
    assert not (tmp_path / "run").exists()  # or the mended command would be refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 2.5}, "steps must be a whole number, got 2.5"),
        ({"steps": "100"}, "steps must be a whole number, got '100'"),
        ({"steps": None}, "steps must be a whole number, got None"),
        ({"seed": 0.5}, "seed must be a whole number, got 0.5"),
        ({"cost_limit": "low"}, "cost_limit must be a number, or one for each constraint, got 'low'"),
    ],
)
def test_numbers_that_are_none(tmp_path, options, message):
    with pytest.raises(BadValue, match=message):
        bandit(tmp_path, **options)
    assert not (tmp_path / "run").exists()


def test_settings_of_another_method_are_refused(tmp_path):
    for algorithm, settings in (("sac", sac.LagConfig()), ("sac-lag", sac.Config())):
        with pytest.raises(BadValue, match=rf"{algorithm} takes .*sac\.(Lag)?Config, got .*sac\.(Lag)?Config"):
            bandit(tmp_path, algorithm=algorithm, config=settings)


def test_unknown_task():
    with pytest.raises(BadEnvironment, match="'Point-Gaol'; did you mean 'Point-Goal'"):
        cvpo.train("Point-Gaol", steps=1)


def test_continuous_methods_refuse_discrete_actions(tmp_path):
    with pytest.raises(ValueError, match=r"(?s)Discrete.*cvpo"):
        cvpo.train(Menu, "sac-lag", steps=1, cost_limit=1, run_dir=tmp_path, quiet=True, config={"episode_length": 10})


def test_an_environment_that_a_callable_made_is_asked_for_again(tmp_path, whole, capsys):
    with pytest.raises(ValueError, match=r"a function made, Bandit.*pass env"):
        cvpo.evaluate(whole.path)
    with pytest.raises(ValueError, match=r"a function made, Bandit.*pass env"):
        render(whole.path, tmp_path / "film.gif")
    with pytest.raises(SystemExit):
        cli.main(["train", "--resume", str(whole.path)])
    assert "from Python: cvpo.train(THE_FUNCTION" in " ".join(capsys.readouterr().err.split())
    assert cvpo.evaluate(whole.path, Bandit, episodes=2)["episodes"] == 2


def test_an_evaluation_needs_the_costs_and_the_actions_of_the_training(whole):
    class Careless(Bandit):
        def step(self, action):
            return *super().step(action)[:4], {}

    class Wide(Bandit):
        def __init__(self):
            super().__init__()
            self.action_space = gym.spaces.Box(-2, 2, (1,))

    with pytest.raises(BadEnvironment, match="gives no cost"):
        cvpo.evaluate(whole.path, Careless)
    with pytest.raises(ValueError, match=r"trained on actions .*Wide has"):
        cvpo.evaluate(whole.path, Wide)
