"""The E-step against an independent convex solver, and on ten thousand random and adversarial problems."""

from collections.abc import Iterator

import cvxpy as cp
import numpy as np
import pytest
from estep_problems import SHAPES, Check, EStepProblem, check, random_problem

from cvpo.algorithms.cvpo.estep.solve import EStep, solve_estep


def solve_and_check(p: EStepProblem) -> tuple[EStep, Check]:
    result = solve_estep(p.q_reward, p.q_costs, p.limits, p.kl_limit, p.log_prior)
    multipliers, weights = np.asarray(result.multipliers, float), np.asarray(result.weights)
    return result, check(p, float(result.eta), multipliers, weights, bool(result.feasible))


def reference(p: EStepProblem) -> tuple[float, float]:
    """The best reward (−inf if there is none) and the smallest worst violation, in units of the spreads, by cvxpy."""
    prior = np.exp(p.log_prior.astype(float))
    prior /= prior.sum(-1, keepdims=True)
    values = np.concatenate([p.q_reward[None], p.q_costs]).astype(float)
    means = (prior * values).sum(-1, keepdims=True)
    spread = np.sqrt((prior * (values - means) ** 2).sum(-1).mean(-1))
    centred = (values - means) / np.where(spread > 0, spread, 1.0)[:, None, None]
    room = (p.limits - means[1:].mean((1, 2))) / np.where(spread[1:] > 0, spread[1:], 1.0)

    b = len(prior)
    q = cp.Variable(prior.shape, nonneg=True)
    worst = cp.Variable()
    used = [i for i in range(len(room)) if np.isfinite(room[i]) and spread[1 + i] > 0]
    moved = {i: cp.sum(cp.multiply(q, centred[1 + i])) / b for i in used}
    ball = [cp.sum(q, axis=1) == 1, cp.sum(cp.rel_entr(q, prior)) / b <= p.kl_limit]
    violation = -np.inf
    if used:
        safest = cp.Problem(cp.Minimize(worst), ball + [moved[i] - room[i] <= worst for i in used])
        violation = float(safest.solve(solver=cp.CLARABEL))
    if violation > 0:
        return -np.inf, violation
    best = cp.Problem(cp.Maximize(cp.sum(cp.multiply(q, centred[0])) / b), ball + [moved[i] <= room[i] for i in used])
    return float(best.solve(solver=cp.CLARABEL)), violation


def problems(shapes: list[tuple[int, int, int]], count: int, seed: int) -> Iterator[EStepProblem]:
    """Problems a general-purpose solver can be trusted with: all particles possible, spreads within its precision."""
    for shape in shapes:
        rng = np.random.default_rng([seed, *shape])
        kept = 0
        while kept < count:
            p = random_problem(rng, *shape)
            spreads = np.std(np.concatenate([p.q_reward[None], p.q_costs]), axis=-1)
            tame = np.all(spreads > 1e-3 * spreads.max(-1, keepdims=True)) and np.all(np.isfinite(p.log_prior))
            if tame and p.kl_limit > 1e-3:
                kept += 1
                yield p


def agrees(p: EStepProblem) -> None:
    result, found = solve_and_check(p)
    best, violation = reference(p)
    unit = min(1.0, np.sqrt(2 * p.kl_limit))
    if abs(violation) > 1e-4 * unit:
        assert bool(result.feasible) is (violation < 0)
    if not result.feasible:
        np.testing.assert_allclose(found.violation, violation, atol=1e-4 * unit, rtol=1e-4)
    elif violation < 0:
        # Close to infeasible, a unit of cost is worth many of reward, and so is the other solver's tolerance.
        spread = np.std(p.q_costs, axis=-1).mean(-1) / max(np.std(p.q_reward, axis=-1).mean(), 1e-30)
        price = 1.0 + float(np.sum(np.asarray(result.multipliers) * spread))
        assert abs(found.objective - best) <= 1e-4 * max(abs(best), unit) + 1e-5 * unit * price


def test_agreement_with_a_convex_solver() -> None:
    for p in problems([(2, 3, 4), (1, 3, 4)], 12, seed=5):
        agrees(p)


@pytest.mark.parametrize("m", [1, 2])
def test_unreachable_limits_against_a_convex_solver(m: int) -> None:
    rng = np.random.default_rng(m)
    for kl_limit in (0.01, 0.3):
        reward, costs = rng.normal(size=(3, 4)), rng.normal(size=(m, 3, 4))
        limits = costs.mean((1, 2)) - np.array([2.0, 1.8])[:m]
        arrays = (a.astype(np.float32) for a in (reward, costs, limits))
        p = EStepProblem(*arrays, kl_limit, np.zeros((3, 4), np.float32))
        assert not solve_and_check(p)[0].feasible
        agrees(p)


def sweep(shapes: list[tuple[int, int, int]], count: int) -> None:
    """`count` problems of each shape: solved to a residual of 1e-5, or flagged where the closest answer violates."""
    failures, iterations = [], []
    for shape in shapes:
        rng = np.random.default_rng(shape)
        for i in range(count):
            p = random_problem(rng, *shape)
            result, found = solve_and_check(p)
            iterations.append(int(result.iterations))
            # The weights themselves are float32: in units of a small ball their rounding is all that may be added.
            rounding = np.finfo(np.float32).eps / min(1.0, np.sqrt(2 * p.kl_limit))
            solved = result.finite and result.kkt_residual <= 1e-5 and found.residual <= 1e-5 + rounding
            if not (solved and (result.feasible or found.violation > 0)):
                failures.append((shape, i, p.kl_limit, float(result.kkt_residual), found, iterations[-1]))
    print(f"\n{len(iterations)} problems, passes median {np.median(iterations)}, 99% {np.quantile(iterations, 0.99)}")
    assert not failures, f"{len(failures)} of {len(iterations)}: {failures[:20]}"


def test_problems_are_solved_or_flagged() -> None:
    sweep([(2, 3, 4), (1, 3, 4)], 200)


@pytest.mark.slow
def test_ten_thousand_problems_are_solved_or_flagged() -> None:
    sweep(SHAPES, -(-10_000 // len(SHAPES)))


@pytest.mark.slow
def test_a_sample_agrees_with_a_convex_solver() -> None:
    for p in problems([(1, 1, 64), (2, 1, 8), (2, 64, 16), (3, 7, 5), (4, 16, 6)], 40, seed=7):
        agrees(p)
