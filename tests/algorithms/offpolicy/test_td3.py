"""TD3, DDPG and their Lagrangian versions: what single updates must satisfy, and learning runs."""

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
    some_differ,
    with_critics_of,
)
from scipy import stats
from tracking import assert_tracks_within_its_limit

import cvpo
from cvpo.algorithms.offpolicy import td3

DDPG = td3.DDPGConfig(**TINY)
TD3 = td3.Config(**TINY)
DDPG_LAG = td3.DDPGLagConfig(**TINY, multiplier_kp=0.1, multiplier_ki=0.1)


def with_actor_of(state, donor, members):
    return with_critics_of(state, donor, members)._replace(target_actor=donor.target_actor)


def test_ddpg_is_td3_without_its_three_additions():
    """With one critic, no target noise and no delay, TD3's update is DDPG's; and each of the three is there in TD3."""
    bare = dataclasses.replace(TD3, reward_critics=1, target_noise=0.0, policy_delay=1)
    results = [
        (algorithm := compiled(td3.make, config)).update(algorithm.init(KEY), batch(), KEY)[0]
        for config in (DDPG, bare)
    ]
    assert_same(*results, 0.0)
    assert (TD3.reward_critics, TD3.policy_delay) == (2, 2) and TD3.target_noise > 0


def test_only_td3_adds_noise_to_its_targets():
    for config, noisy in ((TD3, True), (DDPG, False)):
        algorithm = compiled(td3.make, config)
        state = algorithm.init(KEY)
        a, b = (algorithm.update(state, batch(), jax.random.key(i))[0].critics.params for i in (1, 2))
        assert some_differ(a, b) == noisy


def test_the_policy_waits_for_its_turn():
    algorithm = compiled(td3.make, TD3)
    start = algorithm.init(KEY)
    update = algorithm.update
    first, waiting = update(start, batch(), KEY)
    second, info = update(first, batch(), KEY)
    third, repeated = update(second, batch(seed=1), KEY)
    assert_same(start.actor, first.actor, 0.0)
    assert some_differ(first.actor, second.actor)
    assert_same(second.actor, third.actor, 0.0)
    assert some_differ(start.critics.params, first.critics.params)
    # metrics of the policy stand until its next step, so that means over updates are means over policy steps
    assert waiting["policy/loss"] == 0 and repeated["policy/loss"] == info["policy/loss"] != 0


def test_the_policy_climbs_the_first_reward_critic():
    algorithm = compiled(td3.make, dataclasses.replace(TD3, policy_delay=1, gamma=0.0))
    state = algorithm.init(KEY)
    first, second = state.critics.params
    other = state._replace(critics=state.critics._replace(params=(first, jax.tree.map(lambda x: x - 9.0, second))))
    actors = [algorithm.update(s, batch(), KEY)[0].actor for s in (state, other)]
    assert_same(*actors, 0.0)


def test_without_multipliers_the_constrained_update_is_the_plain_one():
    lag = compiled(td3.make, dataclasses.replace(DDPG_LAG, multiplier_kp=0, multiplier_ki=0, multiplier_kd=0), 0.1)
    plain = compiled(td3.make, DDPG)
    penalised = lag.observe(lag.init(KEY), rollout(50.0), WITH_NOISE)
    state = with_actor_of(plain.init(KEY), penalised, [0])
    for i in range(3):
        penalised, _ = lag.update(penalised, batch(seed=i), KEY)
        state, info = plain.update(state, batch(seed=i), KEY)
    assert_same(penalised.actor, state.actor)
    assert not any("cost" in name or "multiplier" in name for name in info)


def test_an_inactive_second_constraint_changes_nothing():
    config = dataclasses.replace(DDPG_LAG, cost_signal="critic")
    two, one = compiled(td3.make, config, 0.01, np.inf), compiled(td3.make, config, 0.01)
    pair = two.init(KEY)
    single = with_actor_of(one.init(KEY), pair, [0, 1])
    update_pair, update_single = two.update, one.update
    for i in range(3):
        steps = batch(2, seed=i)
        pair, _ = update_pair(pair, steps, KEY)
        single, _ = update_single(single, steps._replace(costs=steps.costs[:, :1]), KEY)
    np.testing.assert_allclose(pair.penalty.multipliers, [single.penalty.multipliers[0], 0.0], rtol=1e-5)
    assert_same(pair.actor, single.actor, 1e-5)


def test_the_actors_gradient_agrees_with_finite_differences():
    assert gradient_error(td3.make, DDPG_LAG, limit=3.0, episode_cost=5.0) < 1e-4


def test_exploration_is_noise_around_the_policy():
    algorithm = compiled(td3.make, dataclasses.replace(TD3, exploration_noise=0.3))
    params = algorithm.policy(algorithm.init(KEY))
    obs = jnp.ones((20_000, 3))
    mean, _ = algorithm.act(params, obs, None)
    action, log_prob = algorithm.act(params, obs, jax.random.normal(KEY, mean.shape))
    np.testing.assert_allclose((action - mean).std(0), 0.3, rtol=0.03)
    expected = stats.norm(mean, 0.3).logpdf(action).sum(-1)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-3, atol=1e-3)


def test_a_deterministic_policy_has_no_density_to_cut_traces_by():
    assert td3.Config().retrace  # whole traces need none
    with pytest.raises(ValueError, match=r"cut_traces"):
        td3.Config(retrace=True, n_step=3, cut_traces=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["td3", "ddpg"])
def test_pendulum_swings_up(tmp_path, name):
    config = {
        "envs": 4, "hidden": (64, 64), "batch_size": 128, "update_ratio": 0.5, "early_update_factor": 1.0,
        "polyak": 0.99, "n_step": 1, "eval_episodes": 20, "eval_every": 5,
    }  # fmt: skip
    run = cvpo.train("Pendulum-v1", name, steps=20_000, run_dir=tmp_path, quiet=True, config=config)
    assert run.metrics()[-1]["eval/reward"] >= -250


@pytest.mark.slow
@pytest.mark.parametrize("name", ["td3-lag", "ddpg-lag"])
def test_tracking_within_its_limit(tmp_path, name):
    assert_tracks_within_its_limit(tmp_path, name)
