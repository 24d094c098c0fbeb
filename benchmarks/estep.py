"""The E-step at the paper's sizes against SciPy's SLSQP on the same problems, in the same run.

    python benchmarks/estep.py [--states 300] [--particles 32] [--problems 40]

The reference is what published implementations do: ten iterations of SLSQP with a tolerance of 1e-3 on (η, λ), here on
a NumPy dual in float64 with its analytic gradient. Both solvers get a random walk of problems, as training gives them,
and start from the previous solution (warm) or from scratch (cold). Times are medians of the wall clock and of the
processor time, which a busy machine disturbs less; residuals are computed in float64 by docs/estep.md.
"""

import argparse
import sys
import time
from pathlib import Path

import jax
import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from cvpo.algorithms.cvpo.estep.solve import solve_estep

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "ops"))
from estep_problems import EStepProblem, check


def slsqp(p: EStepProblem, start: np.ndarray) -> tuple[float, float, np.ndarray]:
    """η, λ and the weights [B, K]."""
    reward, cost, limit = p.q_reward.astype(float), p.q_costs[0].astype(float), float(p.limits[0])
    k = reward.shape[1]

    def dual(v: np.ndarray) -> tuple[float, np.ndarray]:
        eta, lam = v
        advantage = reward - lam * cost
        log_sum = logsumexp(advantage / eta, axis=1, keepdims=True)
        q = np.exp(advantage / eta - log_sum)
        log_mean = log_sum.mean() - np.log(k)
        d_eta = p.kl_limit + log_mean - (q * advantage).sum(1).mean() / eta
        return lam * limit + eta * (p.kl_limit + log_mean), np.array([d_eta, limit - (q * cost).sum(1).mean()])

    options = {"maxiter": 10, "ftol": 1e-3}
    eta, lam = minimize(dual, start, jac=True, method="SLSQP", bounds=[(1e-6, 1e3)] * 2, options=options).x
    advantage = (reward - lam * cost) / eta
    q = np.exp(advantage - advantage.max(1, keepdims=True))
    return eta, lam, q / q.sum(1, keepdims=True)


def walk(states: int, particles: int, problems: int) -> list[EStepProblem]:
    rng = np.random.default_rng(0)
    reward, cost = rng.normal(size=(2, states, particles))
    log_prior = np.zeros((states, particles), np.float32)
    result = []
    for _ in range(problems):
        reward, cost = (0.98 * v + 0.2 * rng.normal(size=v.shape) for v in (reward, cost))
        q_reward, q_cost = (5.0 * reward + 20.0).astype(np.float32), (cost + 3.0).astype(np.float32)
        limit = np.array([q_cost.mean() - 0.2], np.float32)
        result.append(EStepProblem(q_reward, q_cost[None], limit, 0.1, log_prior))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=300)
    parser.add_argument("--particles", type=int, default=32)
    parser.add_argument("--problems", type=int, default=40)
    arguments = parser.parse_args()
    problems = walk(arguments.states, arguments.particles, arguments.problems)
    inputs = [jax.device_put((p.q_reward, p.q_costs, p.limits, p.kl_limit)) for p in problems]

    rows: dict[str, list[tuple[float, float, float]]] = {}
    for warm in (False, True):
        ours, theirs = (np.float32(0), np.zeros(1, np.float32)), np.ones(2)
        jax.block_until_ready(solve_estep(*inputs[0], warm_start=ours))
        mine, reference = (rows.setdefault(f"{'warm' if warm else 'cold'}, {name}", []) for name in ("this", "SLSQP"))
        for p, arrays in zip(problems, inputs, strict=True):
            clock = Clock()
            result = jax.block_until_ready(solve_estep(*arrays, warm_start=ours))
            times = clock.milliseconds()
            multipliers, weights = np.asarray(result.multipliers, float), np.asarray(result.weights)
            found = check(p, float(result.eta), multipliers, weights, bool(result.feasible))
            mine.append((*times, found.residual))

            clock = Clock()
            eta, lam, q = slsqp(p, theirs)
            times = clock.milliseconds()
            reference.append((*times, check(p, eta, np.array([lam]), q, True).residual))
            if warm:
                ours, theirs = (result.eta, result.multipliers), np.array([eta, lam])

    print(f"B = {arguments.states}, K = {arguments.particles}, m = 1, {len(problems)} problems, medians")
    print(f"{'':12} {'wall ms':>8} {'processor ms':>13} {'KKT residual':>13}")
    medians = {name: np.median(values, axis=0) for name, values in rows.items()}
    for name, (wall, processor, residual) in medians.items():
        print(f"{name:12} {wall:8.2f} {processor:13.2f} {residual:13.1e}")
    for name in ("cold", "warm"):
        wall, processor, residual = medians[f"{name}, this"] / medians[f"{name}, SLSQP"]
        print(f"{name}, ratio {wall:7.2f} {processor:13.2f} {residual:13.1e}")


class Clock:
    def __init__(self) -> None:
        self.started = time.perf_counter(), time.process_time()

    def milliseconds(self) -> tuple[float, float]:
        return 1e3 * (time.perf_counter() - self.started[0]), 1e3 * (time.process_time() - self.started[1])


if __name__ == "__main__":
    main()
