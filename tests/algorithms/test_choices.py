"""Several choices at once: the product of categorical distributions, and learning with a known answer."""

import itertools

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toys import Desk

import cvpo
from cvpo.algorithms.shared.distributions import Choices, choices_kl, draw_each, log_softmax_each, pick_each
from cvpo.envs.adapter import Environments
from cvpo.errors import BadValue

SIZES = (3, 2, 4)


def policy(seed):
    return Choices(log_softmax_each(jax.random.normal(jax.random.key(seed), (sum(SIZES),)), SIZES))


def combinations():
    """Every action, one-hot."""
    eyes = [np.eye(size) for size in SIZES]
    return jnp.array([np.concatenate(rows) for rows in itertools.product(*eyes)], jnp.float32)


def test_the_density_entropy_and_divergence_are_those_of_the_joint_distribution():
    old, new = policy(0), policy(1)
    joint_old, joint_new = (jnp.exp(jax.vmap(p.log_prob)(combinations())) for p in (old, new))
    assert joint_old.sum() == pytest.approx(1.0, abs=1e-5)
    assert old.entropy() == pytest.approx(-float((joint_old * jnp.log(joint_old)).sum()), rel=1e-5)
    divergence = float((joint_old * jnp.log(joint_old / joint_new)).sum())
    assert choices_kl(old, new) == pytest.approx(divergence, rel=1e-4)


def test_draws_have_the_probabilities_and_the_pick_is_the_most_likely():
    some = policy(2)
    draws = draw_each(jax.random.key(3), jnp.broadcast_to(some.log_probs, (50_000, sum(SIZES))), SIZES)
    np.testing.assert_allclose(draws.mean(0), jnp.exp(some.log_probs), atol=0.01)
    np.testing.assert_array_equal(draws.sum(-1), len(SIZES))
    every = combinations()
    best = every[jax.vmap(some.log_prob)(every).argmax()]
    np.testing.assert_array_equal(pick_each(some.log_probs, SIZES), best)


@pytest.mark.parametrize(
    ("space", "one_hot", "native"),
    [
        (gym.spaces.MultiDiscrete([3, 2]), [0, 0, 1, 0, 1], [2, 1]),
        (gym.spaces.MultiDiscrete([3, 2], start=[5, -1]), [0, 1, 0, 1, 0], [6, -1]),
        (gym.spaces.MultiDiscrete([[2, 2], [2, 2]]), [1, 0, 0, 1, 1, 0, 0, 1], [[0, 1], [0, 1]]),
        (gym.spaces.MultiBinary(3), [0, 1, 1, 0, 0, 1], [1, 0, 1]),
    ],
)
def test_environments_get_actions_of_their_own_space(space, one_hot, native):
    class Listens(Desk):
        def __init__(self):
            super().__init__()
            self.action_space = space

        def step(self, action):
            assert self.action_space.contains(action)
            heard.append(action)
            return self._look(), 0.0, False, False, {"cost": 0.0}

    heard: list = []
    with Environments(Listens, 1, episode_length=10) as environments:
        assert sum(environments.choices) == environments.action_size == len(one_hot)
        environments.reset([0])
        environments.step(np.array([one_hot], np.float32))
    np.testing.assert_array_equal(heard[-1], native)


@pytest.mark.parametrize("algorithm", ["sac-lag", "td3-lag", "ddpg-lag"])
def test_methods_for_continuous_actions_say_what_they_need(algorithm, tmp_path):
    with pytest.raises(BadValue, match=r"needs continuous actions, got several choices.*\[3, 2\].*cvpo, ppo-lag"):
        cvpo.train(Desk, algorithm, steps=1, cost_limit=1, run_dir=tmp_path, quiet=True, config={"episode_length": 10})


@pytest.mark.parametrize(
    ("algorithm", "settings"), [("cvpo", {"random_epochs": 1, "batch_size": 16}), ("trpo-lag", {}), ("cpo", {})]
)
def test_a_policy_of_several_choices_acts_alike_when_it_is_loaded(algorithm, settings, tmp_path):
    config = settings | {"envs": 2, "eval_episodes": 2, "hidden": (8,), "episode_length": 10}
    run = cvpo.train(Desk, algorithm, steps=40, cost_limit=Desk.LIMIT, run_dir=tmp_path, quiet=True, config=config)
    policy, space = run.policy(), Desk().action_space
    obs = np.array([[-1.0], [1.0], [0.3]], np.float32)
    assert all(space.contains(action) for action in policy(obs))
    assert space.contains(policy(obs[0], deterministic=False))
    evaluated = cvpo.evaluate(run.path, Desk, episodes=2)
    assert evaluated["episodes"] == 2


BRIEF = {"episode_length": 10, "hidden": (32, 32), "eval_episodes": 20, "eval_every": 1000}


@pytest.mark.slow
def test_learning_within_a_limit_has_the_known_answer(tmp_path):
    run = cvpo.train(Desk, steps=10_000, cost_limit=Desk.LIMIT, run_dir=tmp_path, quiet=True, config=BRIEF)
    last = run.metrics()[-1]
    assert last["eval/reward"] >= 0.85 * Desk.BEST_REWARD
    assert last["train/cost"] <= 1.5 * Desk.LIMIT


@pytest.mark.slow
def test_learning_without_a_limit_has_the_known_answer(tmp_path):
    config = BRIEF | {"minibatch_size": 100}
    run = cvpo.train(Desk, "ppo", steps=20_000, run_dir=tmp_path, quiet=True, config=config)
    assert run.metrics()[-1]["eval/reward"] >= 0.95 * Desk.MOST_REWARD
