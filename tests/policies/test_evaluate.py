"""Evaluations: episodes from their seeds, what they show, and what they do not."""

import gymnasium as gym
import numpy as np
import pytest
from policies.made_policies import make_policy
from rich.console import Console

import cvpo
from cvpo.envs.adapter import Environments
from cvpo.errors import UserError
from cvpo.policies.episodes import episode_seeds, open_environments, run_episodes
from cvpo.policies.evaluate import compare
from cvpo.policies.show import comparison_table, evaluation_table
from cvpo.policies.verdict import judge


class Meter(gym.Env):
    """Its seed alone says what an episode earns, costs and how long it lasts; the cost has two parts."""

    observation_space = gym.spaces.Box(-100, 100, (7,), np.float32)
    action_space = gym.spaces.Box(np.array([[-2.0, 0.0, 0.1]], np.float32), np.array([[2.0, 10.0, 0.3]], np.float32))
    max_step_cost = 2.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length, self.time = int(self.np_random.integers(1, 10)), 0
        self.heat = self.np_random.uniform()
        return np.zeros(7, np.float32), {}

    def step(self, action):
        self.time += 1
        info = {"cost": self.heat + 1, "cost_heat": self.heat, "cost_wear": 1.0, "cost_name": "of no account"}
        return np.zeros(7, np.float32), self.heat, self.time == self.length, False, info


def timed(env=Meter):
    """A meter that says when it ends at the latest: in 10 steps."""
    return lambda: gym.wrappers.TimeLimit(env(), 10)


@pytest.fixture(scope="module")
def run(made):
    return made("cvpo").run


def expected(seeds):
    lengths, costs, rewards = [], [], []
    for seed in seeds:
        env = Meter()
        env.reset(seed=int(seed))
        lengths.append(env.length)
        rewards.append(env.length * env.heat)
        costs.append(env.length * (env.heat + 1))
    return np.array(lengths), np.array(rewards), np.array(costs)


def test_every_episode_is_whole_and_from_its_seed(run):
    policy = cvpo.load(run)
    seeds = episode_seeds(3, 120)  # more than are run at once, and no multiple of it
    with open_environments(policy, timed(), 120) as environments:
        assert environments.count < 120
        ran = run_episodes(policy, environments, seeds)
    length, reward, cost = expected(seeds)
    np.testing.assert_array_equal(ran.length, length)
    np.testing.assert_allclose(ran.reward, reward, rtol=1e-5)
    np.testing.assert_allclose(ran.costs[:, 0], cost, rtol=1e-5)
    np.testing.assert_allclose(ran.parts["cost_wear"], length)
    np.testing.assert_allclose(ran.parts["cost_heat"], reward, rtol=1e-5)
    assert set(ran.parts) == {"cost_wear", "cost_heat"}


def test_more_episodes_begin_with_the_same_ones(run):
    few, many = (cvpo.evaluate(run, timed(), episodes=n, seed=5) for n in (4, 9))
    assert many["costs"][:4] == few["costs"]
    assert cvpo.evaluate(run, timed(), episodes=4, seed=6)["costs"] != few["costs"]


def test_an_evaluation_says_what_it_saw(run):
    result = cvpo.evaluate(run, timed(), episodes=40, cost_limit=9.0)
    _, _, costs = expected(episode_seeds(0, 40))
    assert result["cost"] == pytest.approx(costs.mean(), rel=1e-5)
    assert result["over_limit"] == np.mean(costs > 9.0)
    assert result["cost_tail"]["largest"] == pytest.approx(costs.max(), rel=1e-5)
    assert result["cost_tail"]["cvar"]["0.9"] == pytest.approx(np.sort(costs)[-4:].mean(), rel=1e-5)
    assert result["cost_interval"][0] < result["cost"] < result["cost_interval"][1] < result["cost_upper_bound"] < 20
    assert result["cost_bound_holds"]
    assert result["cost_parts"]["cost_wear"]["mean"] + result["cost_parts"]["cost_heat"]["mean"] == pytest.approx(
        result["cost"], rel=1e-5
    )
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(evaluation_table(result))
    text = console.export_text()
    assert "episodes over the limit" in text and "from wear" in text and f"{result['cost_upper_bound']:.4g}" in text


def test_noise_is_drawn_from_the_seed(run, tmp_path):
    class Felt(Meter):
        def step(self, action):
            obs, _, terminated, truncated, info = super().step(action)
            return obs, float(np.sum(action)), terminated, truncated, info

    calm = cvpo.evaluate(run, timed(Felt), episodes=5)
    noisy = cvpo.evaluate(run, timed(Felt), episodes=5, deterministic=False)
    assert (
        noisy["rewards"]
        == cvpo.evaluate(run, timed(Felt), episodes=5, deterministic=False)["rewards"]
        != calm["rewards"]
    )


def test_policies_are_compared_on_the_same_episodes(run, tmp_path):
    other = make_policy(tmp_path / "other", "td3").run
    result = compare(run, other, timed(), episodes=30)
    assert result["difference"]["cost"] == {"mean": 0.0, "interval": [0.0, 0.0]}  # Meter does not feel actions
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(comparison_table(result, ("a", "b")))
    assert "+0 (+0 to +0)" in console.export_text()


def test_the_verdict_is_what_the_bounds_allow():
    costs = np.full((1000, 1), 5.0)
    assert judge(costs, [10.0], 400.0, 0.95, "mean").safe is True
    assert "within the limit of 10" in judge(costs, [10.0], 400.0, 0.95, "mean").sentence
    assert judge(costs[:20], [10.0], 400.0, 0.95, "mean").safe is None  # twenty episodes cannot show it
    assert judge(costs, [1.0], 400.0, 0.95, "mean").safe is False
    assert judge(costs, [float("inf")], 400.0, 0.95, "mean").safe is None
    assert "about 95%" in judge(costs, [10.0], None, 0.95, "mean").sentence
    two = np.full((1000, 2), 5.0)
    assert judge(two, [10.0, 1.0], 400.0, 0.95, "mean").safe is False
    assert judge(two, [10.0, 10.0], 400.0, 0.95, "mean").safe is True


def test_the_verdict_is_on_the_statistic_that_has_the_limit():
    costs = np.where(np.arange(1000) % 20 == 0, 50.0, 0.0)[:, None]  # one in twenty over a limit of 10, mean 2.5
    assert judge(costs, [10.0], 400.0, 0.95, "quantile=0.9").safe is True
    assert judge(costs, [10.0], 400.0, 0.95, "quantile=0.99").safe is False
    assert judge(costs, [10.0], 400.0, 0.95, "quantile=0.95").safe is None
    assert judge(costs, [70.0], 400.0, 0.95, "cvar=0.9").safe is True
    assert judge(costs, [1.0], 400.0, 0.95, "cvar=0.9").safe is False
    assert judge(costs, [20.0], 400.0, 0.95, "cvar=0.9").safe is None
    assert "50 of 1000 episodes" in judge(costs, [10.0], 400.0, 0.95, "quantile=0.9").sentence


def test_built_in_tasks_say_what_a_step_can_cost():
    with Environments("Car-Circle", 1) as environments:
        assert environments.max_step_cost == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"episodes": 0}, "episodes must be >= 1, got 0"),
        ({"level": 1.5}, "level must be between 0.5 and 1, got 1.5"),
        ({"max_step_cost": -1.0}, "max_step_cost must be a positive finite number, got -1.0"),
        ({"max_step_cost": 0.1, "episodes": 3}, "cannot cost more than 1; give a max_step_cost that holds"),
        ({"cost_limit": [1.0, 2.0]}, "has 1 cost limits, got 2"),
        ({"seed": -1}, "seed must be >= 0, got -1"),
        ({"seed": 10**400}, "seed must be <= 9223372036854775807, got 10000"),
    ],
)
def test_bad_options_are_refused(run, options, message):
    with pytest.raises(UserError, match=message):
        cvpo.evaluate(run, timed(), **options)


def test_a_negative_cost_is_refused_as_such(run):
    class Refunds(Meter):
        def step(self, action):
            *values, info = super().step(action)
            return *values, info | {"cost": -1.0}

    with pytest.raises(UserError, match=r"an episode cost -\d+, and what max_step_cost bounds are costs >= 0"):
        cvpo.evaluate(run, timed(Refunds), episodes=3)


@pytest.mark.parametrize("env", [timed(), "Pendulum-v1"])
def test_a_view_is_for_built_in_tasks(run, tmp_path, env):
    with pytest.raises(UserError, match=r"view is for built-in tasks.* leave it out, got '3d'"):
        cvpo.render(run, tmp_path / "film.gif", env=env, view="3d")


def test_an_environment_without_pictures_cannot_be_filmed(run, tmp_path):
    with pytest.raises(UserError, match="cannot be filmed: it has no pictures"):
        cvpo.render(run, tmp_path / "film.gif", env=timed())
