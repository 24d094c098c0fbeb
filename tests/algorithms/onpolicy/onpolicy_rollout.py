"""Rollouts of the `Bets` problem of toys.py without an environment, for tests of single updates."""

import jax
import jax.numpy as jnp

from cvpo.algorithms.base import Algorithm, Spec, State, Transition
from cvpo.algorithms.shared.noise import draw_noise

LENGTH, ENVS = 20, 8


def spec(*cost_limits: float, discrete: bool = False) -> Spec:
    return Spec(
        obs_size=1,
        action_size=3 if discrete else 1,
        discrete=discrete,
        cost_limits=cost_limits,
        episode_length=LENGTH,
    )


def compiled_update(algorithm: Algorithm):
    """The compiled update; its metrics come as the log has them: one dictionary."""
    compiled = jax.jit(algorithm.update)

    def update(state: State, rollout: Transition, key: jax.Array) -> tuple[State, dict]:
        state, metrics = compiled(state, rollout, key)
        return state, metrics.of(1)

    return update


def play(algorithm: Algorithm, state: State, key: jax.Array, costs: int = 1) -> Transition:
    """One episode [H, N] of the policy: edge s, bet a, reward s·a, cost a² (the same for each constraint).

    Discrete choices 0, 1, 2 are the bets -1, 0, 1.
    """
    edge_key, act_key = jax.random.split(key)
    edges = jax.random.uniform(edge_key, (LENGTH + 1, ENVS, 1), minval=-1.0)
    params = algorithm.policy(state)
    discrete = algorithm.act(params, edges[0], None)[0].dtype == jnp.int32
    noise = draw_noise(spec(discrete=discrete), act_key, (LENGTH, ENVS))
    action, log_prob = jax.vmap(lambda o, n: algorithm.act(params, o, n))(edges[:-1], noise)
    bet = action - 1.0 if action.dtype == jnp.int32 else jnp.clip(action[..., 0], -1, 1)
    return Transition(
        obs=edges[:-1],
        action=action,
        log_prob=log_prob,
        reward=edges[:-1, :, 0] * bet,
        costs=jnp.repeat((bet**2)[..., None], costs, -1),
        next_obs=edges[1:],
        terminated=jnp.zeros((LENGTH, ENVS), bool),
        ended=jnp.zeros((LENGTH, ENVS), bool).at[-1].set(True),
    )
