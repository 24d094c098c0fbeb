"""PPO's clipped step and its early stop; learning runs of PPO and PPO-Lag."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from onpolicy_rollout import compiled_update, play, spec
from toys import Bets

import cvpo
from cvpo.algorithms.onpolicy import ppo

CLIP = 0.2


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (1.0, 2.0, 2.0),  # untouched: the gradient of ratio · A with respect to log ratio
        (1.1, 2.0, 2.2),
        (1.3, 2.0, 0.0),  # raised enough already
        (0.7, -2.0, 0.0),  # lowered enough already
        (0.7, 2.0, 1.4),  # too low for a good action: pulled back up
        (1.3, -2.0, -2.6),  # too high for a bad action: pushed back down
    ],
)
def test_the_gradient_is_cut_only_where_the_ratio_has_moved_far_enough_the_right_way(ratio, advantage, expected):
    gradient = jax.grad(ppo.clipped_objective)(jnp.log(ratio), advantage, CLIP)
    assert gradient == pytest.approx(expected, rel=1e-5)


def test_clipping_only_lowers_the_objective():
    log_ratio = jnp.linspace(-2, 2, 41)
    for advantage in (-1.5, 1.5):
        assert np.all(ppo.clipped_objective(log_ratio, advantage, CLIP) <= jnp.exp(log_ratio) * advantage)


def test_passes_end_with_the_first_one_that_moves_the_policy_beyond_the_bound():
    config = ppo.Config(hidden=(8,), minibatch_size=40, value_epochs=1, policy_epochs=4, kl_stop=0.0)
    algorithm = ppo.make(config, spec(1.0))
    state = jax.jit(algorithm.init)(jax.random.key(0))
    rollout = jax.jit(lambda state: play(algorithm, state, jax.random.key(1)))(state)
    update = compiled_update(algorithm)
    _, info = update(state, rollout, jax.random.key(2))
    assert info["update/policy_epochs"] == 1
    # without any advantage the policy stays, so every pass is made
    flat = rollout._replace(reward=jnp.zeros_like(rollout.reward))
    _, info = update(state, flat, jax.random.key(2))
    assert info["update/policy_epochs"] == 4


@pytest.mark.slow
def test_ppo_swings_up_the_pendulum(tmp_path):
    settings = {"envs": 8, "minibatch_size": 100, "eval_every": 100, "eval_episodes": 20}
    run = cvpo.train("Pendulum-v1", "ppo", steps=150_000, config=settings, run_dir=tmp_path, quiet=True)
    assert run.metrics()[-1]["eval/reward"] >= -300


@pytest.mark.slow
def test_ppo_balances_the_pole(tmp_path):
    settings = {"envs": 4, "minibatch_size": 100, "eval_every": 100}
    run = cvpo.train("CartPole-v1", "ppo", steps=60_000, config=settings, run_dir=tmp_path, quiet=True)
    assert run.metrics()[-1]["eval/reward"] >= 475


@pytest.mark.slow
def test_ppo_lag_finds_the_constrained_optimum(tmp_path):
    settings = {"envs": 32, "minibatch_size": 80, "policy_learning_rate": 1e-3, "multiplier_kp": 0.5}
    settings |= {"multiplier_ki": 0.1, "episode_length": Bets.LENGTH, "eval_every": 1000, "eval_episodes": 200}
    settings |= {"safety_margin": 0.0}  # the optimum is at the limit
    run = cvpo.train(
        Bets, "ppo-lag", steps=80_000, cost_limit=Bets.LIMIT, config=settings, run_dir=tmp_path, quiet=True
    )
    end = run.metrics()[-1]
    assert end["eval/cost"] <= 1.15 * Bets.LIMIT
    assert end["eval/reward"] >= 0.85 * Bets.BEST_REWARD
