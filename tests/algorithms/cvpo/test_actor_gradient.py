"""The M-step's gradient against finite differences of its Lagrangian."""

from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from cvpo.algorithms.base import Spec
from cvpo.algorithms.cvpo.estep.candidates import Candidates
from cvpo.algorithms.cvpo.heads import make_head
from cvpo.algorithms.cvpo.mstep import fit_policy, init_policy, kl_bounds, lagrangian
from cvpo.presets import make_config


@pytest.mark.parametrize("discrete", [False, True])
def test_a_step_goes_down_the_slope_of_the_lagrangian(discrete):
    """With plain gradient descent at a rate of 1, one M-step moves the policy by minus its gradient."""
    spec = Spec(obs_size=3, action_size=2, discrete=discrete, cost_limits=(1.0,), episode_length=10)
    config = make_config("cvpo", None, {"hidden": (8,), "mstep_iterations": 1, "policy_learning_rate": 1.0})
    rng = np.random.default_rng(0)
    with jax.enable_x64(True), patch.object(optax, "adam", optax.sgd):
        head = make_head(config, spec)
        double = lambda tree: jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), tree)  # noqa: E731
        moved = lambda params, size: jax.tree.map(lambda x: x + size * rng.normal(size=x.shape), params)  # noqa: E731
        old_actor = moved(double(head.init(jax.random.key(0))), 0.3)
        policy = init_policy(config, head, jax.random.key(0))
        policy = policy._replace(actor=moved(old_actor, 0.05), duals=double(policy.duals))
        obs = jnp.asarray(rng.normal(size=(5, 3)))
        old = head.distribution(old_actor, obs)
        actions, log_prior = head.candidates(old, jax.random.key(1), 4)
        weights = jnp.asarray(rng.dirichlet(np.ones(log_prior.shape[1]), 5))
        candidates = Candidates(obs, old, actions, log_prior, weights, weights[None])

        after = fit_policy(config, head, policy, old_actor, candidates, weights).policy
        gradient = jax.tree.map(lambda a, b: a - b, policy.actor, after.actor)

        def objective(actor):
            _, terms = lagrangian(config, head, candidates, weights, actor, policy.duals)
            return float(after.duals @ (terms.kls - kl_bounds(config, head)) - terms.likelihood)

        assert float(after.duals.max()) > 0
        for _ in range(3):
            direction = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), policy.actor)
            ends = [objective(jax.tree.map(lambda p, d: p + h * d, policy.actor, direction)) for h in (1e-6, -1e-6)]  # noqa: B023
            slope = sum(float((g * d).sum()) for g, d in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True))
            assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(slope, rel=1e-4)
