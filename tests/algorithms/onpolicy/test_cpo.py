"""CPO's updates in each case of its subproblem, and a learning run."""

import jax
import numpy as np
import pytest
from onpolicy_rollout import LENGTH, compiled_update, play, spec
from toys import Bets

import cvpo
from cvpo.algorithms.onpolicy import cpo, trpo
from cvpo.algorithms.shared import trust_region

KEY = jax.random.key(0)
# Without discount an advantage is a step's own cost, so a constant added to all costs moves their level alone.
CONFIG = cpo.Config(hidden=(8,), value_epochs=1, kl_limit=0.02, gamma=0.0, safety_margin=0.0)
LIMIT = 5.0


@pytest.fixture(scope="module")
def iteration():
    """(start, state, rollout, update(state, excess)).

    An update sees the costs raised until an episode exceeds the limit by `excess`. The policy of `state` bets by its
    edge, so that both reward and cost rise with its bets. At the start neither does.
    """
    algorithm = cpo.make(CONFIG, spec(LIMIT))
    start, compiled = jax.jit(algorithm.init)(KEY), compiled_update(algorithm)
    collect = jax.jit(lambda state, key: play(algorithm, state, key))

    def with_excess(rollout, excess: float):
        raised = (LIMIT + excess - rollout.costs.sum((0, 2)).mean()) / LENGTH
        return rollout._replace(costs=rollout.costs + raised)

    state = start
    for key in jax.random.split(jax.random.key(1), 10):
        state, _ = compiled(state, with_excess(collect(state, key), -1000.0), KEY)
    rollout = collect(state, jax.random.key(2))
    return start, state, rollout, lambda state, excess: compiled(state, with_excess(rollout, excess), KEY)


@pytest.mark.parametrize("limits", [(), (1.0, 2.0)])
def test_exactly_one_constraint_is_taken(limits):
    with pytest.raises(ValueError, match=f"exactly one cost limit, got {len(limits)}.*ppo-lag"):
        cpo.make(CONFIG, spec(*limits))


def test_far_below_the_limit_it_is_trpo(iteration):
    start, _, rollout, update = iteration
    after, info = update(start, -1000.0)
    twin = trpo.make(trpo.Config(hidden=(8,), value_epochs=1, kl_limit=0.02, gamma=0.0), spec())
    twin_start = jax.jit(twin.init)(KEY)._replace(policy=start.policy)
    expected, _ = jax.jit(twin.update)(twin_start, rollout, KEY)
    assert info["update/case"] == trust_region.INACTIVE
    assert info["update/multiplier"] == 0
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), after.policy, expected.policy)


def test_far_above_the_limit_it_lowers_the_cost_and_nothing_else(iteration):
    _, state, _, update = iteration
    after, info = update(state, 1000.0)
    assert info["update/case"] == trust_region.RECOVERY
    assert info["update/cost_surrogate"] < 0
    assert 0 < info["update/kl"] <= 0.02
    # a smaller bet costs less, whatever the edge: the noise shrinks
    assert after.policy.log_scale[0] < state.policy.log_scale[0]


@pytest.mark.parametrize("excess", [-0.1, 0.1])
def test_near_the_limit_it_gains_reward_within_the_room_there_is(iteration, excess):
    _, state, _, update = iteration
    _, info = update(state, excess)
    assert info["update/case"] == trust_region.ACTIVE
    assert info["update/multiplier"] > 0
    assert info["update/policy_loss"] < 0
    assert info["update/cost_surrogate"] <= max(-excess, 0) / LENGTH + 1e-6


@pytest.mark.slow
def test_cpo_finds_the_constrained_optimum(tmp_path):
    settings = {"envs": 16, "episode_length": Bets.LENGTH, "eval_every": 1000, "eval_episodes": 200}
    settings |= {"safety_margin": 0.0}  # the optimum is at the limit
    run = cvpo.train(Bets, "cpo", steps=50_000, cost_limit=Bets.LIMIT, config=settings, run_dir=tmp_path, quiet=True)
    end = run.metrics()[-1]
    assert end["eval/cost"] <= 1.15 * Bets.LIMIT
    assert end["eval/reward"] >= 0.85 * Bets.BEST_REWARD
