"""The constrained E-step: known optima, degenerate inputs, invariances, and use inside jit, vmap and scan."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from cvpo.algorithms.cvpo.estep.solve import EStep, solve_estep, tilted_weights

B, K = 3, 4  # one shape for most tests: each shape is compiled once


def values(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(B, K)).astype(np.float32), rng.normal(size=(B, K)).astype(np.float32)


def certified(result: EStep, feasible: bool = True) -> None:
    assert bool(result.finite) and bool(result.feasible) is feasible
    assert float(result.kkt_residual) < 1e-5 and float(result.duality_gap) < 3e-5
    np.testing.assert_allclose(result.weights.sum(-1), 1.0, rtol=1e-6)


def binary_kl(p: float) -> float:
    """KL of (p, 1 − p) against the uniform distribution."""
    return np.log(2) + p * np.log(p) + (1 - p) * np.log(1 - p)


class TestKnownOptima:
    def test_two_actions_move_until_the_kl_bound(self) -> None:
        result = solve_estep([[1.0, 0.0]] * 2, [[0.0, 0.0]] * 2, 1.0, binary_kl(0.75))
        certified(result)
        np.testing.assert_allclose(result.weights, [[0.75, 0.25]] * 2, atol=1e-5)
        np.testing.assert_allclose(result.eta, 1 / np.log(0.75 / 0.25), rtol=1e-4)

    def test_two_actions_stop_at_the_cost_limit(self) -> None:
        # The rewarding action costs 1, the other nothing: E[cost] = p <= 0.6 binds before the KL bound does.
        result = solve_estep([[1.0, 0.0]] * 2, [[1.0, 0.0]] * 2, 0.6, 0.5)
        certified(result)
        np.testing.assert_allclose(result.weights, [[0.6, 0.4]] * 2, atol=1e-5)
        np.testing.assert_allclose(result.multipliers, [1.0], rtol=1e-4)  # one unit of cost buys one of reward

    def test_two_actions_with_an_unreachable_limit_get_the_smallest_cost(self) -> None:
        result = solve_estep([[1.0, 0.0]] * 2, [[1.0, 0.0]] * 2, 0.1, binary_kl(0.75))
        certified(result, feasible=False)
        np.testing.assert_allclose(result.weights, [[0.25, 0.75]] * 2, atol=1e-5)
        np.testing.assert_allclose(result.costs, [0.25], atol=1e-5)

    def test_both_bounds_active_on_two_states(self) -> None:
        # Reward only in state 0, cost only in state 1, both binary: each state is a Bernoulli of its own. The limit
        # fixes state 1 at p = 0.3, and state 0 gets what is left of the KL budget.
        kl_limit = (binary_kl(0.8) + binary_kl(0.3)) / 2
        result = solve_estep([[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]], 0.15, kl_limit)
        certified(result)
        np.testing.assert_allclose(result.weights, [[0.8, 0.2], [0.3, 0.7]], atol=2e-5)

    def test_gaussian_policy_and_quadratic_reward(self) -> None:
        # π = N(0, 1) and Q_r = −(a − 2)²/2 tilt to N(2t/(1 + t), 1/(1 + t)) with t = 1/η, whose KL is known.
        actions = np.linspace(-8, 8, 2001)
        log_prior = -(actions**2) / 2

        def kl(t: float) -> float:
            mean, variance = 2 * t / (1 + t), 1 / (1 + t)
            return (variance + mean**2 - 1 - np.log(variance)) / 2

        t = brentq(lambda t: kl(t) - 0.4, 1e-3, 1e3)
        reward = -((actions - 2) ** 2) / 2
        result = solve_estep(reward[None], np.zeros((1, 2001)), 1.0, 0.4, log_prior[None])
        certified(result)
        weights = np.asarray(result.weights[0], float)
        mean = weights @ actions
        np.testing.assert_allclose(1 / result.eta, t, rtol=1e-4)
        np.testing.assert_allclose(mean, 2 * t / (1 + t), rtol=1e-4)
        np.testing.assert_allclose(weights @ (actions - mean) ** 2, 1 / (1 + t), rtol=1e-4)


class TestDegenerate:
    def test_constant_reward_returns_the_closest_distribution_that_meets_the_limit(self) -> None:
        _, costs = values()
        loose = solve_estep(np.full((B, K), 7.0), costs, costs.mean() + 0.1, 0.2)
        certified(loose)
        np.testing.assert_allclose(loose.weights, 1 / K, rtol=1e-6)
        tight = solve_estep(np.full((B, K), 7.0), costs, costs.mean() - 0.1, 0.2)
        certified(tight)
        np.testing.assert_allclose(tight.costs, costs.mean() - 0.1, atol=1e-5)
        assert 0 < tight.kl < 0.2 and tight.eta == 0 and np.all(tight.multipliers == 0)

    @pytest.mark.parametrize("level, feasible", [(0.5, True), (1.0, True), (2.0, False)])
    def test_constant_cost_decides_the_flag_and_nothing_else(self, level: float, feasible: bool) -> None:
        reward, costs = values()
        result = solve_estep(reward, np.full((B, K), level), 1.0, 0.2)
        certified(result, feasible)
        np.testing.assert_allclose(result.weights, solve_estep(reward, costs, np.inf, 0.2).weights, atol=1e-6)

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_reward_proportional_to_cost(self, sign: float) -> None:
        reward, _ = values()
        result = solve_estep(reward, sign * reward, sign * reward.mean() + 0.05, 0.2)
        certified(result)
        if sign > 0:  # raising the reward raises the cost: the limit binds, the KL bound does not
            np.testing.assert_allclose(result.costs, reward.mean() + 0.05, atol=1e-5)
            assert result.kl < 0.2
        else:  # raising the reward lowers the cost: only the KL bound binds
            np.testing.assert_allclose(result.kl, 0.2, rtol=1e-5)
            np.testing.assert_allclose(result.multipliers, 0.0)

    def test_one_particle(self) -> None:
        for limit, feasible in ((1.0, True), (-1.0, False)):
            result = solve_estep(np.ones((B, 1)), np.zeros((B, 1)), limit, 0.1)
            certified(result, feasible)
            np.testing.assert_array_equal(result.weights, np.ones((B, 1)))

    def test_slack_kl_bound_puts_all_weight_on_the_best(self) -> None:
        reward, costs = values()
        result = solve_estep(reward, costs, np.inf, 10.0)
        certified(result)
        np.testing.assert_allclose(result.weights, np.eye(K)[reward.argmax(-1)], atol=1e-5)

    def test_slack_kl_bound_shares_ties_like_the_prior(self) -> None:
        reward = np.tile([1.0, 1.0, 0.0, 0.0], (B, 1))
        log_prior = np.log(np.tile([0.1, 0.3, 0.3, 0.3], (B, 1)))
        result = solve_estep(reward, np.zeros((B, K)), 1.0, 10.0, log_prior)
        certified(result)
        np.testing.assert_allclose(result.weights, np.tile([0.25, 0.75, 0.0, 0.0], (B, 1)), atol=1e-5)

    def test_slack_kl_bound_with_a_binding_limit_mixes_two_vertices(self) -> None:
        # A linear program: the best has cost 1, the second best cost 0; at a limit of 0.25 a quarter goes to the best.
        reward, costs = np.tile([2.0, 1.0, 0.0, -1.0], (B, 1)), np.tile([1.0, 0.0, 1.0, 1.0], (B, 1))
        result = solve_estep(reward, costs, 0.25, 10.0)
        certified(result)
        np.testing.assert_allclose(result.reward, 1.25, atol=2e-5)
        np.testing.assert_allclose(result.costs, 0.25, atol=2e-5)
        np.testing.assert_allclose(result.weights[:, 2:], 0.0, atol=2e-5)

    def test_limit_of_zero(self) -> None:
        reward, costs = values()
        costs = np.abs(costs)
        certified(solve_estep(reward, costs, 0.0, 0.2), feasible=False)
        costs[:, 0] = 0.0  # one particle of each state costs nothing
        result = solve_estep(reward, costs, 0.0, 10.0)
        assert bool(result.finite) and result.kkt_residual < 1e-5
        np.testing.assert_allclose(result.weights[:, 0], 1.0, atol=1e-4)

    def test_infinite_limits_lift_constraints(self) -> None:
        reward, costs = values()
        both = solve_estep(reward, np.stack([costs, -costs]), [costs.mean() - 0.1, np.inf], 0.2)
        one = solve_estep(reward, costs, costs.mean() - 0.1, 0.2)
        certified(both)
        np.testing.assert_allclose(both.weights, one.weights, atol=1e-5)
        np.testing.assert_allclose(both.multipliers[0], one.multipliers[0], rtol=1e-3)
        assert both.multipliers[1] == 0

    def test_duplicated_constraint_changes_nothing(self) -> None:
        reward, costs = values()
        limit = costs.mean() - 0.1
        twice = solve_estep(reward, np.stack([costs, costs]), limit, 0.2)
        once = solve_estep(reward, costs, limit, 0.2)
        certified(twice)
        np.testing.assert_allclose(twice.weights, once.weights, atol=2e-5)
        np.testing.assert_allclose(twice.multipliers.sum(), once.multipliers[0], rtol=1e-3)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_values_that_are_not_finite_are_flagged(self, bad: float) -> None:
        reward, costs = values()
        log_prior = np.log(np.random.default_rng(0).dirichlet(np.ones(K), size=B))
        for broken in (0, 1):
            arrays = [reward.copy(), costs.copy()]
            arrays[broken][1, 2] = bad
            result = solve_estep(*arrays, 0.0, 0.2, log_prior)
            assert not result.finite and not result.feasible and result.kkt_residual == np.inf
            np.testing.assert_allclose(result.weights, np.exp(log_prior), rtol=1e-5)

    @pytest.mark.parametrize("kl_limit, limit", [(np.nan, 0.0), (0.0, 0.0), (0.1, np.nan), (0.1, -np.inf)])
    def test_traced_limits_that_make_no_sense_are_flagged(self, kl_limit: float, limit: float) -> None:
        reward, costs = values()
        result = solve_estep(reward, costs, jnp.array(limit), jnp.array(kl_limit))
        assert not result.finite
        np.testing.assert_allclose(result.weights, 1 / K, rtol=1e-6)

    def test_excluded_particles_do_not_matter(self) -> None:
        reward, costs = values()
        log_prior = np.zeros((B, K))
        log_prior[:, 3] = -np.inf
        limit = costs[:, :3].mean() - 0.1
        plain = solve_estep(reward, costs, limit, 0.2, log_prior)
        certified(plain)
        np.testing.assert_array_equal(plain.weights[:, 3], 0.0)
        reward[:, 3], costs[:, 3] = np.nan, -np.inf
        np.testing.assert_array_equal(solve_estep(reward, costs, limit, 0.2, log_prior).weights, plain.weights)

    @pytest.mark.parametrize("kl_limit", [1e-6, 1e-3, 10.0])
    def test_small_and_large_kl_limits(self, kl_limit: float) -> None:
        reward, costs = values()
        result = solve_estep(reward, costs, costs.mean(), kl_limit)
        certified(result)
        assert result.costs[0] <= costs.mean() + 1e-5
        if kl_limit < 1:
            np.testing.assert_allclose(result.kl, kl_limit, rtol=1e-5)

    def test_one_state_with_a_million_times_the_spread(self) -> None:
        reward, costs = values()
        reward[0] *= 1e6
        certified(solve_estep(reward, costs, costs.mean() - 0.1, 0.6))


exponents = st.floats(-6, 6)


class TestInvariances:
    @settings(deadline=None, max_examples=30)
    @given(seed=st.integers(0, 10**6), reward_scale=exponents, cost_scale=exponents, room=st.floats(-0.8, 0.5))
    def test_units_do_not_matter(self, seed: int, reward_scale: float, cost_scale: float, room: float) -> None:
        reward, costs = values(seed)
        limit = costs.mean() + room
        plain = solve_estep(reward, costs, limit, 0.2)
        scale = 10**cost_scale
        scaled = solve_estep(reward * np.float32(10**reward_scale), costs * np.float32(scale), limit * scale, 0.2)
        assert scaled.feasible == plain.feasible
        np.testing.assert_allclose(scaled.weights, plain.weights, atol=1e-4)

    @settings(deadline=None, max_examples=20)
    @given(seed=st.integers(0, 10**6))
    def test_a_large_shift_costs_only_the_digits_the_inputs_lose(self, seed: int) -> None:
        # Multiples of 1/16 near 1e6 are exact in float32, so that the shifted problem is the same.
        rng = np.random.default_rng(seed)
        reward, costs = (rng.integers(-32, 32, size=(2, B, K)) / 16).astype(np.float32)
        limit = np.float32(np.round(costs.mean() * 16) / 16)
        plain = solve_estep(reward, costs, limit, 0.2)
        shifted = solve_estep(reward + np.float32(1e6), costs + np.float32(1e6), limit + np.float32(1e6), 0.2)
        np.testing.assert_allclose(shifted.weights, plain.weights, atol=2e-5)

    @settings(deadline=None, max_examples=20)
    @given(seed=st.integers(0, 10**6))
    def test_order_does_not_matter(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        reward, costs = values(seed)
        states, particles = rng.permutation(B), rng.permutation(K)
        plain = solve_estep(reward, costs, costs.mean() - 0.1, 0.2)
        moved = solve_estep(reward[states][:, particles], costs[states][:, particles], costs.mean() - 0.1, 0.2)
        np.testing.assert_allclose(moved.weights, plain.weights[states][:, particles], atol=5e-5)


class TestUse:
    def test_per_state_equals_a_loop(self) -> None:
        reward, costs = values(1)
        together = solve_estep(reward, costs, 0.0, 0.2, per_state=True)
        assert together.eta.shape == (B,) and together.multipliers.shape == (B, 1)
        for b in range(B):
            alone = solve_estep(reward[b : b + 1], costs[b : b + 1], 0.0, 0.2)
            assert together.feasible[b] == alone.feasible
            np.testing.assert_allclose(together.weights[b], alone.weights[0], atol=1e-5)
            np.testing.assert_allclose(together.costs[b], alone.costs, atol=1e-5)

    def test_warm_start_gives_the_same_answer_sooner(self) -> None:
        reward, costs = values(2)
        solve = partial(solve_estep, q_costs=costs, cost_limits=costs.mean() - 0.1, kl_limit=0.2)
        before = solve(reward)
        cold = solve(reward * 1.01)
        warm = solve(reward * 1.01, warm_start=(before.eta, before.multipliers))
        np.testing.assert_allclose(warm.weights, cold.weights, atol=1e-5)
        assert warm.iterations < cold.iterations

    @pytest.mark.parametrize(
        "eta, multiplier",
        [(0.0, 0.0), (np.nan, 1.0), (1e-9, 3.0), (1e-30, 0.0), (1e-30, 1e-3), (1e9, 1e12), (1.0, np.inf)],
    )
    def test_any_warm_start_gives_the_answer(self, eta: float, multiplier: float) -> None:
        reward, costs = values(2)
        solve = partial(solve_estep, reward, costs, costs.mean() - 0.1, 0.2)
        result = solve(warm_start=(jnp.float32(eta), jnp.full(1, multiplier, jnp.float32)))
        certified(result)
        np.testing.assert_allclose(result.weights, solve().weights, atol=2e-5)

    def test_a_limit_that_does_not_bind_has_no_multiplier(self) -> None:
        reward, costs = values(4)
        free = solve_estep(reward, costs, np.inf, 0.2)
        warm = (free.eta, jnp.full(1, 2.0))
        result = solve_estep(reward, costs, free.costs + 0.5, 0.2, warm_start=warm)
        certified(result)
        np.testing.assert_array_equal(result.multipliers, 0.0)
        np.testing.assert_array_equal(result.tilt[1:], 0.0)

    def test_the_tilt_gives_the_weights(self) -> None:
        reward, costs = values(5)
        for limit in (costs.mean() - 0.1, -10.0):  # the second cannot be met
            result = solve_estep(reward, costs, limit, 0.2)
            again = tilted_weights(result.tilt, jnp.array(reward), jnp.array(costs[None]), jnp.zeros((B, K)))
            np.testing.assert_allclose(again, result.weights, atol=1e-5)

    def test_inside_vmap_and_scan(self) -> None:
        rewards = np.stack([values(s)[0] for s in range(3)])
        costs = np.stack([values(s)[1] for s in range(3)])
        limits = np.array([0.5, -0.2, -3.0], np.float32)  # slack, binding, unreachable
        alone = [solve_estep(r, c, limit, 0.2) for r, c, limit in zip(rewards, costs, limits, strict=True)]
        assert [bool(result.feasible) for result in alone] == [True, True, False]
        mapped = jax.jit(jax.vmap(lambda r, c, limit: solve_estep(r, c, limit, 0.2)))(rewards, costs, limits)

        def step(warm: tuple[jax.Array, jax.Array], inputs: tuple[jax.Array, ...]) -> tuple[tuple, EStep]:
            result = solve_estep(*inputs, 0.2, warm_start=warm)
            return (result.eta, result.multipliers), result

        _, scanned = jax.lax.scan(step, (jnp.zeros(()), jnp.zeros(1)), (rewards, costs, limits))
        for i, result in enumerate(alone):
            for many in (mapped, scanned):
                np.testing.assert_allclose(many.weights[i], result.weights, atol=2e-5)
                assert many.feasible[i] == result.feasible and many.kkt_residual[i] < 1e-5

    def test_shapes_and_values_are_checked(self) -> None:
        with pytest.raises(ValueError, match=r"got -0\.1"):
            solve_estep(np.zeros((2, 3)), np.zeros((2, 3)), 0.0, -0.1)
        with pytest.raises(ValueError, match=r"\(2, 3\) and \(2, 4\)"):
            solve_estep(np.zeros((2, 3)), np.zeros((2, 4)), 0.0, 0.1)
        with pytest.raises(ValueError, match=r"\[1\], got shape \(2,\)"):
            solve_estep(np.zeros((2, 3)), np.zeros((2, 3)), [0.0, 1.0], 0.1)
        with pytest.raises(ValueError, match=r"shape \(2, 3\), got \(3,\)"):
            solve_estep(np.zeros((2, 3)), np.zeros((2, 3)), 0.0, 0.1, np.zeros(3))
