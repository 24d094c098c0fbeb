"""CVPO: problems whose constrained optimum is known, and the truths its update rests on."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from samples import sample_of
from scipy.optimize import linprog
from toys import Bandit, Menu, Stairs

import cvpo
from cvpo.algorithms.base import Spec, Transition
from cvpo.algorithms.cvpo import learner
from cvpo.algorithms.shared.returns import threshold_factor
from cvpo.errors import BadValue
from cvpo.presets import make_config
from cvpo.training import replay
from cvpo.training.replay import Replay

SMALL = {
    "envs": 20, "hidden": (32, 32), "batch_size": 128, "particles": 16, "update_ratio": 0.5, "eval_every": 10,
    "early_update_factor": 1.0, "safety_margin": 0.0, "gamma": 0.9, "cost_gamma": 0.9,
}  # fmt: skip
# Epochs of toys have a fifth of the updates of a task's, and the answer lies where the cost is at its limit: the
# requested reduction must be steep there.
STEEP = {"policy_learning_rate": 1e-3, "policy_polyak": 0.98, "proportional_gain": 2.0, "integral_gain": 0.01}


def solve(env, limit, tmp_path, steps, **config):
    run = cvpo.train(env, steps=steps, cost_limit=limit, run_dir=tmp_path, quiet=True, config=SMALL | config)
    tail = run.metrics()[-10:]
    return run, lambda key: float(np.mean([line[key] for line in tail if key in line]))


@pytest.mark.slow
# The paper's threshold is of T discounted steps, its critic's value of endlessly many: they agree if γ^T is small.
@pytest.mark.parametrize("signal", [STEEP, {"cost_signal": "critic", "gamma": 0.5, "cost_gamma": None}])
def test_bandit_ends_at_its_limit(tmp_path, signal):
    _, mean = solve(Bandit, 3.0, tmp_path, 20_000, episode_length=10, **signal)
    # E[cost] = 3 means a mean action of -0.4 and a reward of -4, whatever the noise
    assert mean("train/cost") == pytest.approx(3.0, rel=0.1)
    assert mean("train/reward") == pytest.approx(-4.0, abs=0.6)


@pytest.mark.slow
def test_two_constraints_are_each_met(tmp_path):
    _, mean = solve(lambda: Bandit(2), [2.5, 4.0], tmp_path, 20_000, episode_length=10, **STEEP)
    assert mean("train/cost_0") == pytest.approx(2.5, rel=0.12)
    assert mean("train/cost_1") == pytest.approx(4.0, rel=0.12)
    assert mean("train/reward") == pytest.approx(-7.0, abs=1.0)


@pytest.mark.slow
def test_an_inactive_second_limit_changes_nothing_but_the_first_cost(tmp_path):
    run, mean = solve(lambda: Bandit(2), [2.5, float("inf")], tmp_path, 20_000, episode_length=10)
    assert mean("train/cost_0") == pytest.approx(2.5, rel=0.15)
    assert mean("train/cost_1") > 8.0  # nothing holds the second component back
    assert run.metrics()[-1]["estep/multiplier_1"] == 0.0


@pytest.mark.slow
def test_discrete_choices_are_mixed_to_meet_the_limit(tmp_path):
    _, mean = solve(Menu, 2.5, tmp_path, 20_000, episode_length=10, proportional_gain=2.0, integral_gain=0.01)
    assert mean("train/cost") == pytest.approx(2.5, rel=0.1)
    assert mean("train/reward") == pytest.approx(6.0, rel=0.1)


def best_occupancy(limit: float) -> float:
    """The largest reward of Stairs within the limit: a linear program over time-dependent occupancies."""
    length, speeds, actions = Stairs.LENGTH, Stairs.SPEEDS, 3
    index = np.arange(length * speeds * actions).reshape(length, speeds, actions)
    reward, cost = np.zeros(index.size), np.zeros(index.size)
    flow, inflow = np.zeros((length * speeds, index.size)), np.zeros(length * speeds)
    inflow[0] = 1.0
    for t, s, a in np.ndindex(index.shape):
        column, after = index[t, s, a], Stairs.next_speed(s, a)
        reward[column], cost[column] = Stairs.REWARD[after], Stairs.COST[after]
        flow[t * speeds + s, column] += 1
        if t + 1 < length:
            flow[(t + 1) * speeds + after, column] -= 1
    return -linprog(-reward, A_ub=[cost], b_ub=[limit], A_eq=flow, b_eq=inflow).fun


@pytest.mark.slow
def test_a_small_constrained_mdp_is_solved(tmp_path):
    limit = 6.0
    best = best_occupancy(limit)
    # With these settings a policy changes much within a few updates: a dual over several batches would be of an older.
    _, mean = solve(Stairs, limit, tmp_path, 40_000, episode_length=20, dual_batches=1, **STEEP)
    assert mean("train/cost") == pytest.approx(limit, rel=0.1)
    assert mean("train/reward") > 0.88 * best  # a stationary policy cannot use the known end of the episode


SPEC = Spec(obs_size=3, action_size=2, discrete=False, cost_limits=(1.0,), episode_length=10)
QUICK = {"hidden": (16,), "batch_size": 32, "particles": 8, "envs": 4}


def rollout(spec: Spec, seed: int = 0) -> Transition:
    storage = replay.create(spec, 1, 4).steps
    keys = iter(jax.random.split(jax.random.key(seed), 8))
    random = jax.tree.map(
        lambda x: jax.random.normal(next(keys), x.shape) if x.dtype == jnp.float32 else jnp.zeros_like(x), storage
    )
    last = jnp.zeros_like(random.ended).at[:, -1].set(True)
    return random._replace(costs=jnp.abs(random.costs), ended=last)


def one_update(config: dict, spec: Spec = SPEC, error: float | None = None):
    algorithm = learner.make(make_config("cvpo", None, QUICK | config), spec)
    state = algorithm.init(jax.random.key(0))
    data = rollout(spec)
    state = algorithm.observe(state, jax.tree.map(lambda x: x[0], data), jnp.zeros(data.reward.shape[2], bool))
    if error is not None:
        control = state.cost_control._replace(error=jnp.full(spec.num_costs, error), integral=jnp.zeros(spec.num_costs))
        state = state._replace(cost_control=control)
    made = make_config("cvpo", None, QUICK | config)
    batch = replay.sample(Replay(data, jnp.int32(1)), jax.random.key(1), made.sequences, made.n_step)
    after, metrics = jax.jit(algorithm.update)(state, sample_of(batch), jax.random.key(2))
    return state, after, metrics.of(1)


TIGHT = {"kl_mean": 0.005, "kl_scale": 0.0005}


@pytest.mark.parametrize(
    ("limits", "changes", "words"),
    [
        ((1.0,), {}, "at most 90% of the cost reduction that a KL of 0.1 allows, so every E-step has a solution"),
        ((1.0, 1.0), {}, "that a KL of 0.1 allows, over all costs together; .* may still fail"),
        ((1.0,), {"cost_signal": "critic"} | TIGHT, "any two such M-steps.*only on average"),
        ((1.0,), {"cost_signal": "critic", "enforce_trust_region": True} | TIGHT, r"any two such M-steps \(.*\)$"),
        ((1.0,), {"cost_signal": "critic", "kl_constraint": False}, "none of the paper's guarantees"),
    ],
)
def test_the_first_line_promises_what_the_settings_hold(limits, changes, words):
    spec = dataclasses.replace(SPEC, cost_limits=limits)
    assert re.search(words, learner.make(make_config("cvpo", None, changes), spec).describe())


PLAIN = {"safety_margin": 0.0, "integral_gain": 0.0, "n_step": 1}


def test_the_requested_reduction_follows_the_error():
    for error in (-0.5, 0.0, 0.25, 0.5):
        _, _, info = one_update(PLAIN | {"proportional_gain": 2.0}, error=error)
        asked = 2 * error / np.sqrt(1 + (2 * error) ** 2)
        assert float(info["cost_control/requested_reduction"]) == pytest.approx(asked, abs=1e-6)
        moved = float(info["estep/threshold"] - info["estep/cost_policy"])
        assert moved == pytest.approx(0.0, abs=1e-5) if error == 0 else moved * error < 0


def test_a_request_is_bounded_by_what_the_kl_ball_allows():
    """However far the cost is above its limit, half of the possible reduction is left to the reward."""
    _, _, info = one_update(PLAIN | {"max_reduction": 0.5, "proportional_gain": 10.0}, error=1.0)
    assert float(info["estep/threshold"]) < float(info["estep/cost_policy"])
    assert float(info["estep/feasible"]) == 1.0
    assert float(info["estep/kl"]) == pytest.approx(0.1, rel=1e-3)  # what is left is used, so for the reward
    with pytest.raises(BadValue, match="max_reduction must be below 1, got 1"):
        make_config("cvpo", None, {"max_reduction": 1.0})


def test_the_critics_signal_has_the_papers_threshold():
    _, _, info = one_update({"cost_signal": "critic", "n_step": 1})
    assert float(info["estep/threshold"]) == pytest.approx(1.0 * threshold_factor(10, 0.99), rel=1e-5)


def test_the_limit_decays_to_its_final_value():
    spec = SPEC
    algorithm = learner.make(
        make_config(
            "cvpo", None, QUICK | {"cost_signal": "critic", "limit_start": 3.0, "limit_decay": 0.5, "n_step": 1}
        ),
        spec,
    )
    state = algorithm.init(jax.random.key(0))
    data = rollout(spec)
    batch = replay.sample(Replay(data, jnp.int32(1)), jax.random.key(1), 32)
    seen, update = [], jax.jit(algorithm.update)
    for _ in range(3):
        state = algorithm.observe(state, jax.tree.map(lambda x: x[0], data), jnp.zeros(data.reward.shape[2], bool))
        _, metrics = update(state, sample_of(batch), jax.random.key(2))
        seen.append(float(metrics.mean["estep/threshold"]) / threshold_factor(10, 0.99))
    np.testing.assert_allclose(seen, [3.0, 2.0, 1.5], rtol=1e-5)


def test_one_dual_is_solved_for_as_many_updates_as_it_has_batches():
    # 180 updates an epoch
    config = make_config("cvpo", None, QUICK | {"dual_batches": 3, "update_ratio": 4.5})
    algorithm = learner.make(config, SPEC)
    state, update = algorithm.init(jax.random.key(0)), jax.jit(algorithm.update)
    batch = replay.sample(Replay(rollout(SPEC), jnp.int32(1)), jax.random.key(1), config.sequences, config.n_step)
    temperatures = []
    for i in range(7):
        state, _ = update(state, sample_of(batch), jax.random.key(i))
        temperatures.append(float(state.solved.estep.eta))
    first, second, third = temperatures[0], temperatures[3], temperatures[6]
    assert temperatures == [first] * 3 + [second] * 3 + [third]
    assert len({first, second, third}) == 3


@pytest.mark.parametrize(("ratio", "batches"), [(0.25, 1), (3.0, 2), (100.0, 8)])
def test_a_dual_has_few_batches_where_an_epoch_has_few_updates(ratio, batches):
    state = learner.make(make_config("cvpo", None, QUICK | {"update_ratio": ratio}), SPEC).init(jax.random.key(0))
    assert len(state.pool.q_reward) == batches


def test_without_the_trust_region_its_multipliers_are_zero():
    _, state, info = one_update({"kl_constraint": False, "mstep_iterations": 20, "policy_learning_rate": 0.01})
    np.testing.assert_array_equal(state.policy.duals, 0.0)
    _, _, bounded = one_update({"mstep_iterations": 20, "policy_learning_rate": 0.01})
    assert float(info["mstep/kl_mean"]) > float(bounded["mstep/kl_mean"])


def test_an_enforced_trust_region_is_never_left():
    config = {"mstep_iterations": 20, "policy_learning_rate": 0.05, "kl_mean": 0.001, "kl_scale": 0.0001}
    _, _, free = one_update(config)
    assert float(free["mstep/kl_mean"]) > 0.001  # the multipliers alone do not hold it
    _, _, held = one_update(config | {"enforce_trust_region": True})
    assert float(held["mstep/kl_mean"]) <= 0.001 and float(held["mstep/kl_scale"]) <= 0.0001
    assert float(held["mstep/step_fraction"]) < 1.0


@pytest.mark.parametrize(
    "config",
    [
        {"n_step": 1},
        {"n_step": 4, "retrace": True},
        {"n_step": 4, "retrace": True, "cut_traces": False},
        {"per_state": True, "cost_signal": "critic"},
        {"full_covariance": False},
        {"cost_critics": 2, "cost_ensemble": "max", "next_actions": 3},
        {"max_gradient_norm": 0.1},
    ],
)
def test_options_give_finite_certified_updates(config):
    before, after, info = one_update(config)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after))
    assert float(info["estep/kkt_residual"]) < 1e-5
    assert not np.array_equal(before.policy.actor[0][0], after.policy.actor[0][0])


@pytest.mark.parametrize("cut", [True, False])
def test_only_cut_traces_ask_how_probable_an_action_was(cut):
    config = make_config("cvpo", None, QUICK | {"n_step": 4, "retrace": True, "cut_traces": cut})
    algorithm = learner.make(config, SPEC)
    state, data = algorithm.init(jax.random.key(0)), rollout(SPEC)
    batch = replay.sample(Replay(data, jnp.int32(1)), jax.random.key(1), config.sequences, config.n_step)
    rare = batch._replace(log_prob=batch.log_prob + 5.0)  # as if they had been far more probable than they are now
    updated = [algorithm.update(state, sample_of(b), jax.random.key(2))[0].critics.params for b in (batch, rare)]
    same = all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, updated), strict=True))
    assert same is not cut


def test_a_diagonal_policy_has_no_covariance():
    algorithm = learner.make(make_config("cvpo", None, QUICK | {"full_covariance": False}), SPEC)
    params = algorithm.policy(algorithm.init(jax.random.key(0)))
    assert params[-1][1].shape == (4,)  # two means, two scales


def test_critics_see_clipped_actions():
    from cvpo.algorithms.offpolicy.critics import make_critics

    critics = make_critics(make_config("cvpo", None, QUICK), SPEC)
    params = critics.init(jax.random.key(0)).params
    obs = jnp.ones((4, 3))
    inside = critics.values(params, obs, jnp.ones((4, 2, 2)))
    np.testing.assert_array_equal(inside, critics.values(params, obs, jnp.full((4, 2, 2), 7.0)))
