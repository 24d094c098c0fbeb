"""Trust-region steps against dense linear algebra and a general convex solver."""

import cvxpy
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cvpo.algorithms.shared import trust_region as tr

KL_LIMIT = 0.05


def random_spd(seed: int, size: int) -> np.ndarray:
    """A symmetric matrix with eigenvalues between 0.5 and 2.5."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(size, size)))
    return basis @ np.diag(rng.uniform(0.5, 2.5, size)) @ basis.T


# Fisher products ----------------------------------------------------------------------------------------------------


def softmax_policy(params):
    """Logits [B, 3] of three choices at fixed inputs, by a small tanh network with flat parameters [20]."""
    inputs = jnp.asarray(np.random.default_rng(0).normal(size=(32, 2)), jnp.float32)
    hidden = jnp.tanh(inputs @ params[:8].reshape(2, 4))
    return hidden @ params[8:].reshape(4, 3)


def softmax_kl(old, new):
    old, new = jax.nn.log_softmax(old), jax.nn.log_softmax(new)
    return (jnp.exp(old) * (old - new)).sum(-1).mean()


def test_fisher_operator_is_the_expected_outer_product_of_scores():
    params = jnp.asarray(np.random.default_rng(1).normal(size=20), jnp.float32)

    def log_probs(p):
        return jax.nn.log_softmax(softmax_policy(p))

    scores = jax.jacobian(log_probs)(params)  # [B, 3, P]
    fisher = jnp.einsum("bn,bnp,bnq->pq", jnp.exp(log_probs(params)), scores, scores) / 32
    product = jax.vmap(tr.fisher_operator(softmax_policy, softmax_kl, params, damping=0.1))(jnp.eye(20))
    np.testing.assert_allclose(product, fisher + 0.1 * np.eye(20), atol=1e-6)


def test_fisher_operator_of_a_gaussian_has_its_closed_form():
    # One state, mean m and log deviation l: the Fisher matrix is diag(exp(-2l), 2).
    def kl(old, new):
        (m0, l0), (m1, l1) = old, new
        return l1 - l0 + (jnp.exp(2 * l0) + (m0 - m1) ** 2) / (2 * jnp.exp(2 * l1)) - 0.5

    params = jnp.array([0.3, -0.7])
    operator = tr.fisher_operator(lambda p: (p[0], p[1]), kl, params)
    np.testing.assert_allclose(jax.vmap(operator)(jnp.eye(2)), np.diag([np.exp(1.4), 2.0]), rtol=1e-5, atol=1e-6)


# The unconstrained step ---------------------------------------------------------------------------------------------


def test_natural_step_reaches_the_edge_of_the_trust_region():
    matrix, gradient = random_spd(3, 5), np.random.default_rng(3).normal(size=5)
    step = np.asarray(tr.natural_step(jnp.asarray(gradient), jnp.linalg.solve(matrix, gradient), KL_LIMIT))
    assert 0.5 * step @ matrix @ step == pytest.approx(KL_LIMIT, rel=1e-4)
    # By Cauchy-Schwarz no step in the region gains more than sqrt(2·limit·gᵀH⁻¹g).
    assert gradient @ step == pytest.approx(
        np.sqrt(2 * KL_LIMIT * gradient @ np.linalg.solve(matrix, gradient)), rel=1e-4
    )


def test_natural_step_of_zero_is_zero():
    assert not np.any(tr.natural_step(jnp.zeros(4), jnp.zeros(4), KL_LIMIT))


# CPO's subproblem ---------------------------------------------------------------------------------------------------


def solve(matrix, gradient, cost_gradient, excess) -> tr.ConstrainedStep:
    g, b = jnp.asarray(gradient, jnp.float32), jnp.asarray(cost_gradient, jnp.float32)
    return tr.constrained_step(
        g, jnp.linalg.solve(matrix, g), b, jnp.linalg.solve(matrix, b), jnp.float32(excess), KL_LIMIT
    )


def reference(matrix, gradient, cost_gradient, excess):
    """(optimal value, λ, ν) by a general solver, or None if it finds the problem infeasible."""
    x = cvxpy.Variable(len(gradient))
    region = 0.5 * cvxpy.quad_form(x, cvxpy.psd_wrap(matrix)) <= KL_LIMIT
    safety = cost_gradient @ x + excess <= 0
    problem = cvxpy.Problem(cvxpy.Maximize(gradient @ x), [region, safety])
    problem.solve(solver=cvxpy.CLARABEL)
    if problem.status == cvxpy.INFEASIBLE:
        return None
    assert problem.status == cvxpy.OPTIMAL
    return problem.value, float(np.squeeze(region.dual_value)), float(np.squeeze(safety.dual_value))


def in_trust_region(matrix, step):
    return 0.5 * step @ matrix @ step <= KL_LIMIT * (1 + 1e-4)


# `tightness` places the excess relative to the largest cost decrease that the trust region allows: beyond 1 the problem
# is infeasible, below -1 the constraint cannot bind.
@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**31),
    tightness=st.sampled_from([-3.0, -1.2, -0.9, -0.5, -0.1, 0.0, 0.1, 0.5, 0.9, 1.1, 3.0]),
    aligned=st.sampled_from([-0.9, 0.0, 0.9]),
)
@example(seed=107688779, tightness=-0.5, aligned=0.9)  # gradients nearly parallel
def test_every_case_agrees_with_a_convex_solver(seed, tightness, aligned):
    rng = np.random.default_rng(seed)
    matrix, gradient = random_spd(seed, 4), rng.normal(size=4)
    cost_gradient = aligned * gradient + (1 - abs(aligned)) * rng.normal(size=4)
    reach = np.sqrt(2 * KL_LIMIT * cost_gradient @ np.linalg.solve(matrix, cost_gradient))
    excess = tightness * reach

    found = solve(matrix, gradient, cost_gradient, excess)
    step = np.asarray(found.step, float)
    assert in_trust_region(matrix, step)
    expected = reference(matrix, gradient, cost_gradient, excess)
    if expected is None:
        assert tightness > 1
        assert found.case == tr.RECOVERY
        assert cost_gradient @ step == pytest.approx(-reach, rel=1e-3)  # the largest decrease there is
        return
    value, kl_multiplier, cost_multiplier = expected
    scale = np.linalg.norm(gradient)
    assert found.case != tr.RECOVERY
    assert cost_gradient @ step + excess <= 1e-4 * reach
    assert gradient @ step == pytest.approx(value, abs=2e-3 * scale * np.sqrt(KL_LIMIT))
    assert (found.case == tr.ACTIVE) == (cost_multiplier > 1e-4 * scale)
    assert found.cost_multiplier == pytest.approx(cost_multiplier, rel=1e-2, abs=2e-2 * scale)
    assert found.kl_multiplier == pytest.approx(kl_multiplier, rel=1e-2, abs=2e-2 * scale)


def test_by_hand_when_the_constraint_is_active():
    # H = I, g = (1, 0), b = (1, 1): the step must stay on b·x = 0 and use the whole region.
    found = solve(np.eye(2), [1.0, 0.0], [1.0, 1.0], 0.0)
    length = np.sqrt(2 * KL_LIMIT)
    np.testing.assert_allclose(found.step, length * np.array([1.0, -1.0]) / np.sqrt(2), rtol=1e-5)
    assert found.case == tr.ACTIVE
    # stationarity g = λx + νb gives ν = 1/2 and λ = 1/(√2·length)
    assert found.cost_multiplier == pytest.approx(0.5, rel=1e-5)
    assert found.kl_multiplier == pytest.approx(1 / (np.sqrt(2) * length), rel=1e-5)


def test_parallel_gradients_stop_at_the_cost_limit():
    # Reward and cost rise together and 0.1 of cost is left: any further reward would break the limit.
    found = solve(np.eye(3), [2.0, 0.0, 0.0], [1.0, 0.0, 0.0], -0.1)
    np.testing.assert_allclose(found.step, [0.1, 0.0, 0.0], atol=1e-6)
    assert found.case == tr.ACTIVE
    assert found.cost_multiplier == pytest.approx(2.0)


@pytest.mark.parametrize(("excess", "case"), [(-1.0, tr.INACTIVE), (1.0, tr.RECOVERY)])
def test_a_cost_that_does_not_react(excess, case):
    found = solve(np.eye(2), [1.0, 0.0], [0.0, 0.0], excess)
    assert found.case == case
    expected = [np.sqrt(2 * KL_LIMIT), 0.0] if case == tr.INACTIVE else [0.0, 0.0]
    np.testing.assert_allclose(found.step, expected, rtol=1e-6)


def test_no_reward_gradient_still_restores_safety():
    found = solve(np.eye(2), [0.0, 0.0], [1.0, 0.0], 0.1)
    np.testing.assert_allclose(found.step, [-0.1, 0.0], atol=1e-7)


def test_no_limit_is_the_unconstrained_step():
    found = solve(np.eye(2), [0.6, 0.8], [1.0, 2.0], -np.inf)
    np.testing.assert_allclose(found.step, np.sqrt(2 * KL_LIMIT) * np.array([0.6, 0.8]), rtol=1e-6)
    assert found.case == tr.INACTIVE


# Line search --------------------------------------------------------------------------------------------------------


def test_line_search_takes_the_longest_acceptable_step():
    found, fraction = tr.line_search(lambda x: x[0] <= 0.3, jnp.array([0.0]), jnp.array([1.0]), 0.5, 10)
    assert float(found[0]) == 0.25
    assert float(fraction) == 0.25


def test_a_failed_line_search_returns_the_very_same_parameters():
    params = jnp.asarray(np.random.default_rng(0).normal(size=50), jnp.float32)
    found, fraction = tr.line_search(lambda x: jnp.all(x == params), params, jnp.ones(50), 0.8, 10)
    np.testing.assert_array_equal(found, params)
    assert float(fraction) == 0.0


def test_line_search_refuses_what_is_not_a_number():
    params = jnp.array([1.0, 2.0])
    found, fraction = tr.line_search(lambda x: x.sum() <= 10, params, jnp.array([jnp.nan, 0.0]), 0.8, 5)
    np.testing.assert_array_equal(found, params)
    assert float(fraction) == 0.0
