"""The constrained E-step against hand-computed optima and its own certificate."""

import numpy as np
import pytest

from cvpo.ops.estep import solve_estep


def test_two_actions_unconstrained_sit_on_the_kl_bound() -> None:
    # q = (p, 1 - p) against a uniform prior: KL = log 2 - H(p); p = 0.75 uses 0.130812.
    p = 0.75
    kl = np.log(2) + p * np.log(p) + (1 - p) * np.log(1 - p)
    result = solve_estep([[1.0, 0.0]], [[0.0, 0.0]], 1.0, kl)
    np.testing.assert_allclose(result.weights, [[p, 1 - p]], atol=1e-5)
    np.testing.assert_allclose(result.eta, 1 / np.log(p / (1 - p)), rtol=1e-4)
    assert result.feasible and result.kkt_residual < 1e-5


def test_two_actions_stop_at_the_cost_limit() -> None:
    # The rewarding action costs 1, the other nothing: E[cost] = p <= 0.6 binds before the KL bound does.
    result = solve_estep([[1.0, 0.0]], [[1.0, 0.0]], 0.6, 0.5)
    np.testing.assert_allclose(result.weights, [[0.6, 0.4]], atol=1e-5)
    assert result.feasible and result.kkt_residual < 1e-5


def test_unreachable_limit_gives_the_smallest_cost_in_the_ball() -> None:
    p = 0.75
    kl = np.log(2) + p * np.log(p) + (1 - p) * np.log(1 - p)
    result = solve_estep([[1.0, 0.0]], [[1.0, 0.0]], 0.1, kl)
    np.testing.assert_allclose(result.weights, [[1 - p, p]], atol=1e-5)
    assert not result.feasible and result.finite and result.kkt_residual < 1e-5


def test_shapes_and_values_are_checked() -> None:
    with pytest.raises(ValueError, match=r"got -0\.1"):
        solve_estep(np.zeros((2, 3)), np.zeros((2, 3)), 0.0, -0.1)
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(2, 4\)"):
        solve_estep(np.zeros((2, 3)), np.zeros((2, 4)), 0.0, 0.1)
    with pytest.raises(ValueError, match=r"\[1\], got shape \(2,\)"):
        solve_estep(np.zeros((2, 3)), np.zeros((2, 3)), [0.0, 1.0], 0.1)
