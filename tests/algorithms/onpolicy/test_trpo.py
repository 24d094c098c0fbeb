"""TRPO's step against dense linear algebra, its guarantees in an update, and learning runs of TRPO and TRPO-Lag."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from onpolicy_rollout import compiled_update, play, spec
from toys import Bets

import cvpo
from cvpo.algorithms.base import Spec
from cvpo.algorithms.onpolicy import trpo
from cvpo.algorithms.onpolicy.iteration import Batch
from cvpo.algorithms.onpolicy.policy import make_policy
from cvpo.algorithms.shared.noise import draw_noise

KEY = jax.random.key(0)


@pytest.mark.parametrize(
    "task", [Spec(2, 3, False, (), 10), Spec(2, 3, True, (), 10), Spec(2, 5, False, (), 10, choices=(3, 2))]
)
def test_the_natural_gradient_solves_with_the_explicit_fisher_matrix(task):
    config = trpo.Config(hidden=(4,), cg_iterations=100, cg_damping=0.05)
    policy = make_policy(config, task)
    obs, advantages = jax.random.normal(KEY, (64, 2)), jax.random.normal(KEY, (2, 64))

    @jax.jit
    def both():
        # away from the start, where the last layer is nearly zero
        params = jax.tree.map(lambda x: x + 0.5 * jax.random.normal(jax.random.key(x.size), x.shape), policy.init(KEY))
        action, log_prob = policy.act(params, obs, draw_noise(task, KEY, (64,)))
        batch = Batch(obs, action, log_prob, advantages, jnp.ones(1), jnp.zeros(1), jnp.ones(()))
        region = trpo.make_region(config, policy, params, batch, advantages)
        flat, unravel = ravel_pytree(params)

        def mean_kl(new):
            return policy.kl(policy.distribution(params, obs), policy.distribution(unravel(new), obs)).mean()

        def likelihoods(new):
            return advantages @ policy.log_prob(policy.distribution(unravel(new), obs), action) / 64

        # the Fisher matrix is the Hessian of the KL; a ratio has the gradient of its logarithm where it is 1
        return region.gradients, region.natural_gradients, jax.jacrev(likelihoods)(flat), jax.hessian(mean_kl)(flat)

    gradients, natural_gradients, expected, fisher = map(np.asarray, both())
    np.testing.assert_allclose(gradients, expected, atol=1e-5)
    damped = fisher + 0.05 * np.eye(len(fisher))
    np.testing.assert_allclose(natural_gradients, np.linalg.solve(damped, expected.T).T, rtol=1e-2, atol=1e-3)


@pytest.fixture(scope="module")
def one_update():
    """(algorithm, state, rollout, compiled update)"""
    config = trpo.Config(hidden=(8,), value_epochs=1, kl_limit=0.02)
    algorithm = trpo.make(config, spec(1.0))
    state = jax.jit(algorithm.init)(KEY)
    rollout = jax.jit(lambda state: play(algorithm, state, jax.random.key(1)))(state)
    return algorithm, state, rollout, compiled_update(algorithm)


def test_an_update_improves_the_surrogate_within_the_trust_region(one_update):
    algorithm, state, rollout, update = one_update
    after, info = update(state, rollout, KEY)
    assert 0 < info["update/kl"] <= 0.02
    assert info["update/policy_loss"] < 0
    assert info["update/line_search_fraction"] > 0
    # the better bet has the sign of the edge
    action, _ = algorithm.act(after.policy, jnp.array([[-1.0], [1.0]]), None)
    assert action[0, 0] < action[1, 0]


def test_a_failed_line_search_leaves_the_policy_untouched(one_update):
    _, state, rollout, update = one_update
    # An advantage that is not a number has no acceptable step.
    after, info = update(state, rollout._replace(reward=rollout.reward.at[3, 2].set(jnp.nan)), KEY)
    jax.tree.map(np.testing.assert_array_equal, after.policy, state.policy)
    assert info["update/line_search_fraction"] == 0


def test_without_any_advantage_the_policy_stays_where_it_is(one_update):
    _, state, rollout, update = one_update
    after, info = update(state, rollout._replace(reward=jnp.zeros_like(rollout.reward)), KEY)
    jax.tree.map(np.testing.assert_array_equal, after.policy, state.policy)
    assert info["update/kl"] == 0


@pytest.mark.slow
def test_trpo_balances_the_pole(tmp_path):
    settings = {"envs": 4, "minibatch_size": 100, "eval_every": 100}
    run = cvpo.train("CartPole-v1", "trpo", steps=80_000, config=settings, run_dir=tmp_path, quiet=True)
    assert run.metrics()[-1]["eval/reward"] >= 450


@pytest.mark.slow
def test_trpo_lag_finds_the_constrained_optimum(tmp_path):
    settings = {
        "envs": 16,
        "episode_length": Bets.LENGTH,
        "multiplier_kp": 0.5,
        "multiplier_ki": 0.1,
        "eval_every": 1000,
        "eval_episodes": 200,
        "safety_margin": 0.0,  # the optimum is at the limit
    }
    run = cvpo.train(
        Bets, "trpo-lag", steps=50_000, cost_limit=Bets.LIMIT, config=settings, run_dir=tmp_path, quiet=True
    )
    end = run.metrics()[-1]
    assert end["eval/cost"] <= 1.15 * Bets.LIMIT
    assert end["eval/reward"] >= 0.85 * Bets.BEST_REWARD
