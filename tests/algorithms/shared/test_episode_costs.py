"""The costs of episodes with noise and without it."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cvpo.algorithms.base import Transition
from cvpo.algorithms.shared import episode_costs

MEAN = SimpleNamespace(constraint="mean")


def rollout(*costs: float) -> Transition:
    """Episodes of one step."""
    shape = (1, len(costs))
    empty = Transition(*[jnp.zeros(shape)] * len(Transition._fields))
    return empty._replace(costs=jnp.array(costs).reshape(*shape, 1), ended=jnp.ones(shape, bool))


def after(config, *epochs: tuple[tuple[float, ...], tuple[bool, ...]], weight: float = 0.5) -> list[float]:
    memory, measured = episode_costs.start(config, 1), []
    observe = jax.jit(lambda *arguments: episode_costs.observe(config, *arguments, weight))
    for costs, noiseless in epochs:
        memory, cost = observe(memory, rollout(*costs), jnp.array(noiseless))
        measured.append(float(cost[0]))
    return measured


def test_with_noise_alone_it_is_the_running_mean():
    assert after(MEAN, ((2.0, 4.0), (False, False)), ((9.0, 9.0), (False, False))) == pytest.approx([3.0, 6.0])


@pytest.mark.parametrize("noiseless", [(False, True), (True, False)])
def test_the_kind_that_costs_more_counts(noiseless):
    assert after(MEAN, ((2.0, 8.0), noiseless)) == pytest.approx([8.0])


def test_a_kind_is_averaged_over_as_many_episodes_as_all_were():
    """Half of the episodes have half of the weight."""
    both = (True, False)
    assert after(MEAN, ((8.0, 0.0), both), ((0.0, 0.0), both)) == pytest.approx([8.0, 6.0])


def test_a_kind_without_a_new_episode_keeps_its_mean():
    assert after(MEAN, ((8.0,), (True,)), ((2.0,), (False,)), ((4.0,), (True,)))[1:] == pytest.approx([8.0, 6.0])


def test_a_quantile_is_one_of_the_newest_episodes_of_each_kind():
    config = SimpleNamespace(constraint="quantile=0.5", constraint_episodes=3)
    memory, rng = episode_costs.start(config, 1), np.random.default_rng(0)
    kinds: tuple[list[float], list[float]] = ([], [])
    for _ in range(20):
        costs, noiseless = rng.random(4).astype(np.float32), rng.random(4) < 0.4
        memory, measured = episode_costs.observe(config, memory, rollout(*costs), jnp.array(noiseless), 0.5)
        for cost, kind in zip(costs, noiseless, strict=True):
            kinds[int(kind)].append(float(cost))
        expected = max(np.quantile(kind[-3:], 0.5, method="inverted_cdf") for kind in kinds if kind)
        assert float(measured[0]) == pytest.approx(expected)
