"""The unit in which rewards, costs and observations are measured must not matter: not to any method, not by one bit."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from samples import sample_of

from cvpo.algorithms.base import Algorithm, Params, Spec, Transition
from cvpo.algorithms.config import OffPolicyConfig
from cvpo.algorithms.registry import ALGORITHMS, build
from cvpo.presets import make_config

LENGTH, ENVS, EPOCHS, UPDATES = 12, 4, 3, 4
SMALL = {"hidden": (16,), "envs": ENVS}
LIMITS = (3.0, 1.0)


def problem(name: str, cost: float) -> tuple[Algorithm, int]:
    """A small learner for limits times `cost`, and the steps of a sequence in its batches (0: whole rollouts)."""
    limits = tuple(cost * limit for limit in LIMITS[: constraints(name)])
    spec = Spec(obs_size=3, action_size=2, discrete=False, cost_limits=limits, episode_length=LENGTH)
    config = make_config(name, None, SMALL)
    sequence = 0
    if isinstance(config, OffPolicyConfig):
        config = dataclasses.replace(config, batch_size=48, n_step=4)
        sequence = config.n_step
    algorithm = build(name, config, spec)
    fast = {"xla_backend_optimization_level": 0}  # it is compiled more than it is run
    compiled = algorithm._replace(
        observe=jax.jit(algorithm.observe, compiler_options=fast),
        update=jax.jit(algorithm.update, compiler_options=fast),
    )
    return compiled, sequence


def constraints(name: str) -> int:
    return 1 if name == "cpo" else len(LIMITS)


def steps(shape: tuple[int, ...], costs: int, seed: int) -> Transition:
    rng = np.random.default_rng(seed)
    action = rng.normal(size=(*shape, 2)).astype(np.float32)
    obs = (rng.normal(size=(*shape, 3)) + 2).astype(np.float32)
    reward = obs[..., 0] * action[..., 0] + rng.normal(size=shape)
    return Transition(
        obs=obs,
        action=action,
        log_prob=-np.square(action).sum(-1) / 2,
        reward=reward.astype(np.float32),
        costs=np.square(action[..., :1] + 0.1 * rng.normal(size=(*shape, costs))).astype(np.float32),
        next_obs=(rng.normal(size=(*shape, 3)) + 2).astype(np.float32),
        terminated=rng.random(shape) < 0.05,
        ended=np.zeros(shape, bool),
    )


def learned(
    name: str, made: tuple[Algorithm, int], reward: float = 1, cost: float = 1, obs: float = 1, seed: int = 0
) -> tuple[jax.Array, Params]:
    """Actions and parameters of the policy after a few epochs on data in other units."""
    algorithm, sequence = made

    def data(shape: tuple[int, ...], number: int) -> Transition:
        drawn = steps(shape, constraints(name), number)
        return jax.tree.map(
            jnp.asarray,
            drawn._replace(
                ended=drawn.terminated,
                reward=drawn.reward * np.float32(reward),
                costs=drawn.costs * np.float32(cost),
                obs=drawn.obs * np.float32(obs),
                next_obs=drawn.next_obs * np.float32(obs),
            ),
        )

    state = algorithm.init(jax.random.key(seed))
    for epoch in range(EPOCHS):
        rollout = data((LENGTH, ENVS), 100 + epoch)
        rollout = rollout._replace(ended=rollout.ended.at[-1].set(True))
        if not sequence:
            state, _ = algorithm.update(state, rollout, jax.random.key(epoch))
            state = algorithm.observe(state, rollout, jnp.arange(ENVS) % 2 == 0)
            continue
        state = algorithm.observe(state, rollout, jnp.arange(ENVS) % 2 == 0)
        for number in range(UPDATES):
            key = jax.random.fold_in(jax.random.key(epoch), number)
            state, _ = algorithm.update(state, sample_of(data((12, sequence), 10 * epoch + number)), key)
    params = algorithm.policy(state)
    seen = steps((5,), 1, 7).obs * np.float32(obs)
    return algorithm.act(params, jnp.asarray(seen), None)[0], params


@pytest.mark.parametrize("name", ALGORITHMS)
def test_units_do_not_matter(name: str) -> None:
    made = problem(name, 1.0)
    action, params = learned(name, made)
    assert (np.asarray(action) != np.asarray(learned(name, made, seed=1)[0])).any()  # else nothing was tested
    for powers in ((20, 0, 0), (-20, 0, 20), (0, 0, -20)):
        other, _ = learned(name, made, *(2.0**power for power in powers))
        np.testing.assert_array_equal(action, other, err_msg=f"{powers}")
    for power in (20, -20) if name == "cvpo" else (-20,):  # a limit is a constant: each is compiled anew
        other, theirs = learned(name, problem(name, 2.0**power), 2.0**-power, 2.0**power)
        np.testing.assert_array_equal(action, other, err_msg=f"costs {power}")
        jax.tree.map(np.testing.assert_array_equal, params, theirs)


@pytest.mark.parametrize("name", ["cvpo", "sac-lag", "ppo-lag"])
def test_any_factor_changes_rounding_only(name: str) -> None:
    action, _ = learned(name, problem(name, 1.0))
    other, _ = learned(name, problem(name, 1234.5), 0.37, 1234.5, 3.3)
    np.testing.assert_allclose(action, other, atol=2e-3)
