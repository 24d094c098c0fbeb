"""SAC and SAC-Lag: what single updates must satisfy, and learning runs."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from offpolicy_batch import (
    KEY,
    TINY,
    WITH_NOISE,
    assert_same,
    batch,
    compiled,
    gradient_error,
    rollout,
    spec,
    with_critics_of,
)
from samples import sample_of
from tracking import assert_tracks_within_its_limit

import cvpo
from cvpo.algorithms.base import Sample
from cvpo.algorithms.offpolicy import sac
from cvpo.algorithms.shared.distributions import SquashedGaussian

CONFIG = sac.Config(**TINY)
LAG_CONFIG = sac.LagConfig(**TINY, multiplier_kp=0.1, multiplier_ki=0.1)


def test_without_multipliers_the_constrained_update_is_the_plain_one():
    lag = compiled(sac.make, dataclasses.replace(LAG_CONFIG, multiplier_kp=0, multiplier_ki=0, multiplier_kd=0), 0.1)
    plain = compiled(sac.make, CONFIG)
    penalised = lag.observe(lag.init(KEY), rollout(50.0), WITH_NOISE)
    state = with_critics_of(plain.init(KEY), penalised, [0, 1])
    for i, key in enumerate(jax.random.split(KEY, 3)):
        penalised, _ = lag.update(penalised, batch(seed=i), key)
        state, info = plain.update(state, batch(seed=i), key)
    assert_same(penalised.actor, state.actor)
    assert_same(penalised.critics.params[:2], state.critics.params)
    assert not any("cost" in name or "multiplier" in name for name in info)


def test_an_inactive_second_constraint_changes_nothing():
    two, one = compiled(sac.make, LAG_CONFIG, 3.0, np.inf), compiled(sac.make, LAG_CONFIG, 3.0)
    pair = two.init(KEY)
    single = with_critics_of(one.init(KEY), pair, [0, 1, 2])
    pair, single = two.observe(pair, rollout(5.0, 7.0), WITH_NOISE), one.observe(single, rollout(5.0), WITH_NOISE)
    update_pair, update_single = two.update, one.update
    for i, key in enumerate(jax.random.split(KEY, 3)):
        steps = batch(2, seed=i)
        pair, _ = update_pair(pair, steps, key)
        single, _ = update_single(single, steps._replace(costs=steps.costs[:, :1]), key)
    assert single.penalty.multipliers[0] > 0
    np.testing.assert_allclose(pair.penalty.multipliers, [single.penalty.multipliers[0], 0.0], rtol=1e-5)
    assert_same(pair.actor, single.actor, 1e-5)


def test_the_actors_gradient_agrees_with_finite_differences():
    # γ = 0 keeps the critics' step free of the actor, so that the loss depends on it directly only
    assert (
        gradient_error(
            sac.make, dataclasses.replace(LAG_CONFIG, gamma=0.0, cost_gamma=0.0), limit=3.0, episode_cost=5.0
        )
        < 1e-4
    )


def test_temperature_falls_while_the_entropy_is_above_its_target():
    algorithm = compiled(sac.make, CONFIG)
    state = algorithm.init(KEY)
    *layers, (weight, bias) = state.actor
    for log_scale, sign in ((0.3, -1), (-2.0, 1)):  # the target is -2: a wide policy is above it, a narrow one below
        actor = (*layers, (weight, bias.at[2:].set(log_scale)))
        after, info = algorithm.update(state._replace(actor=actor), batch(), KEY)
        assert np.sign(info["policy/entropy"] + 2) == -sign
        assert np.sign(after.log_temperature - state.log_temperature) == sign


def test_entropy_is_rewarded_and_costs_nothing():
    """Where no action changes the reward the best policy is near uniform. In units of the critic its entropy is worth
    γ α H / (1 - γ), with H = 2 log 2. Costs do not know of it."""
    config = sac.LagConfig(
        **TINY | {"hidden": (32,)}, gamma=0.5, cost_gamma=0.5, temperature=1.0, automatic_temperature=False, polyak=0.9,
        critic_learning_rate=1e-2, policy_learning_rate=1e-2,
    )  # fmt: skip
    algorithm = sac.make(config, spec(1.0))
    steps = batch(shape=(64,))
    zero = jnp.zeros(64)
    steps = steps._replace(reward=steps.obs[:, 0], costs=zero[:, None], terminated=zero > 0, next_obs=steps.obs)

    @jax.jit
    def learn(state, key):
        return jax.lax.scan(
            lambda state, key: algorithm.update(state, sample_of(steps), key), state, jax.random.split(key, 600)
        )

    _, metrics = learn(algorithm.init(KEY), KEY)
    tail = {name: float(values[-100:].mean()) for name, values in metrics.of(1).items()}
    assert tail["policy/temperature"] == 1.0
    assert tail["policy/entropy"] == pytest.approx(2 * np.log(2), abs=0.15)
    beyond = tail["critic/reward_value"] - float(steps.reward.mean()) / (1 - 0.5)
    assert beyond / tail["critic/reward_scale"] == pytest.approx(tail["policy/entropy"], abs=0.2)
    assert tail["critic/cost_value"] == pytest.approx(0.0, abs=0.05)


def test_density_of_a_stored_action_is_that_of_its_draw():
    policy = SquashedGaussian(jnp.array([[0.3, -0.8]] * 100), jnp.array([[0.4, 0.7]] * 100))
    action, log_prob = policy.sample_and_log_prob(KEY)
    np.testing.assert_allclose(sac.log_density(policy, action), log_prob, rtol=1e-3, atol=1e-3)
    assert np.isfinite(sac.log_density(policy, jnp.sign(action))).all()


@pytest.mark.parametrize("retrace", [False, True])
def test_sequences_whose_steps_all_end_give_the_one_step_update(retrace):
    steps = batch(shape=(12, 3))
    ended = steps._replace(ended=jnp.ones_like(steps.ended))
    single = jax.tree.map(lambda x: x.reshape(36, *x.shape[2:]) if retrace else x[:, 0], ended)
    results = []
    for options in ({}, {"n_step": 3, "retrace": retrace}):
        algorithm = compiled(sac.make, dataclasses.replace(CONFIG, gamma=0.0, **options))
        one = ended if options else single
        results.append(algorithm.update(algorithm.init(KEY), Sample(one, single.obs), KEY)[0])
    assert_same(*results, 1e-5)


def test_acting():
    algorithm = compiled(sac.make, CONFIG)
    params, obs = algorithm.policy(algorithm.init(KEY)), jnp.ones((20_000, 3))
    action, log_prob = algorithm.act(params, obs, jax.random.normal(KEY, (20_000, 2)))
    assert (jnp.abs(action) < 1).all() and log_prob.shape == (20_000,)
    # the action without noise is the tanh of the mean, so the median of those with noise
    best, _ = algorithm.act(params, obs[:1], None)
    np.testing.assert_allclose(jnp.median(action, axis=0), best[0], atol=0.02)
    assert (action.std(0) > 0.1).all()


@pytest.mark.slow
def test_pendulum_swings_up(tmp_path):
    config = {
        "envs": 4, "hidden": (128, 128), "batch_size": 128, "update_ratio": 0.5, "early_update_factor": 1.0,
        "polyak": 0.99, "n_step": 1, "random_epochs": 1, "eval_episodes": 20, "eval_every": 5,
    }  # fmt: skip
    run = cvpo.train("Pendulum-v1", "sac", steps=20_000, run_dir=tmp_path, quiet=True, config=config)
    assert run.metrics()[-1]["eval/reward"] >= -200


@pytest.mark.slow
@pytest.mark.parametrize("cost_signal", ["measured", "critic"])
def test_tracking_within_its_limit(tmp_path, cost_signal):
    # without what the paper, whose cost signal one of the two is, does not have
    plain = {"normalize_observations": False, "layer_norm": False}
    assert_tracks_within_its_limit(tmp_path, "sac-lag", cost_signal=cost_signal, **plain)
