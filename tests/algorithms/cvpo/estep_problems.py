"""Random and adversarial E-step problems, and an independent float64 check of a solution."""

from typing import NamedTuple

import numpy as np

# (m, B, K): few shapes, as each is compiled once.
SHAPES = [(1, 1, 2), (1, 1, 64), (1, 300, 32), (1, 512, 128), (2, 1, 8), (2, 64, 16), (2, 300, 2), (3, 32, 32)]
SHAPES += [(3, 7, 5), (4, 1, 128), (4, 16, 6), (4, 512, 8)]


class EStepProblem(NamedTuple):
    q_reward: np.ndarray  # [B, K]
    q_costs: np.ndarray  # [m, B, K]
    limits: np.ndarray  # [m]
    kl_limit: float
    log_prior: np.ndarray  # [B, K]


def random_problem(rng: np.random.Generator, m: int, b: int, k: int) -> EStepProblem:
    """One problem: smooth, heavy-tailed, binary or tied values, any scale and shift, related costs, any limits."""
    kl_limit = float(10 ** rng.uniform(-6, 1)) if rng.random() < 0.5 else float(10 ** rng.uniform(-2, 0))
    reward = _values(rng, b, k)
    costs = np.stack([_values(rng, b, k) for _ in range(m)])
    relation = rng.integers(8)
    if relation == 0:
        costs[0] = rng.choice([-1, 1]) * reward + rng.choice([0, 1e-4, 1e-2]) * costs[0]
    elif relation == 1 and m > 1:
        costs[1] = costs[0]
    elif relation == 2:
        reward = costs.sum(0) + 0.1 * reward
    if rng.random() < 0.2:
        per_state = 10 ** rng.uniform(-3, 3, size=(b, 1))
        reward, costs = reward * per_state, costs * (per_state if rng.random() < 0.5 else 1.0)
    if rng.random() < 0.1:
        reward[0] *= 1e6

    log_prior = np.zeros((b, k))
    if rng.random() < 0.4:
        log_prior = rng.normal(size=(b, k)) * rng.uniform(0, 4)
        if rng.random() < 0.5:
            log_prior[rng.random((b, k)) < 0.2] = -np.inf
            log_prior[:, 0] = 0.0
    prior = np.exp(log_prior - log_prior.max(-1, keepdims=True))
    prior /= prior.sum(-1, keepdims=True)

    reach = min(1.0, np.sqrt(2 * kl_limit))
    mean = (prior * costs).sum(-1, keepdims=True)
    spread = np.sqrt((prior * (costs - mean) ** 2).sum(-1).mean(-1))
    limits = mean.mean((1, 2)) + rng.uniform(-1.2, 1.0, size=m) * reach * spread * rng.choice([0.3, 1.0])
    limits[rng.random(m) < 0.1] = np.inf
    if rng.random() < 0.1:
        limits = mean.mean((1, 2))  # no room at all, but for rounding

    shift = rng.choice([0.0, 0.0, 1.0, 100.0, 1e4]) * rng.normal() * spread
    across_states = rng.choice([0.0, 1.0, 30.0]) * rng.normal(size=(m, b, 1)) * spread[:, None, None]
    offset = shift[:, None, None] + across_states
    cost_scale, reward_scale = 10 ** rng.uniform(-6, 6, size=m), 10 ** rng.uniform(-6, 6)
    return EStepProblem(
        q_reward=((reward + rng.choice([0.0, 10.0]) * rng.normal(size=(b, 1))) * reward_scale).astype(np.float32),
        q_costs=((costs + offset) * cost_scale[:, None, None]).astype(np.float32),
        limits=((limits + offset.mean((1, 2))) * cost_scale).astype(np.float32),
        kl_limit=float(np.float32(kl_limit)),
        log_prior=log_prior.astype(np.float32),
    )


def _values(rng: np.random.Generator, b: int, k: int) -> np.ndarray:
    kind = rng.integers(7)
    if kind == 0:
        return rng.standard_t(2, size=(b, k))
    if kind == 1:
        return (rng.random((b, k)) < rng.choice([0.05, 0.5])).astype(float)
    if kind == 2:
        return np.round(rng.normal(size=(b, k)) * 2)
    if kind == 3:
        return rng.exponential(size=(b, k)) * (rng.random((b, 1)) < 0.3)
    return rng.normal(size=(b, k))


class Check(NamedTuple):
    """The certificate of docs/estep.md recomputed in float64 from the inputs and the returned numbers alone."""

    residual: float
    objective: float  # in units of the reward's spread
    violation: float  # worst, in units of the costs' spread
    kl: float


def check(problem: EStepProblem, eta: float, multipliers: np.ndarray, weights: np.ndarray, feasible: bool) -> Check:
    """KKT residual of a returned solution, in float64."""
    prior = np.exp(problem.log_prior.astype(float) - problem.log_prior.max(-1, keepdims=True))
    prior /= prior.sum(-1, keepdims=True)
    q = weights.astype(float)
    q /= q.sum(-1, keepdims=True)
    values = np.concatenate([problem.q_reward[None], problem.q_costs]).astype(float)
    values = np.where(prior > 0, values, 0.0)
    means = (prior * values).sum(-1, keepdims=True)
    spread = np.sqrt((prior * (values - means) ** 2).sum(-1).mean(-1))
    unit = np.where(spread > 0, spread, 1.0)
    centred = np.where(prior > 0, values - means, 0.0) / unit[:, None, None]
    moved = (q * centred).sum(-1).mean(-1)
    room = (problem.limits.astype(float) - means[1:].mean((1, 2))) / unit[1:] - moved[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = np.where(q > 0, q * np.log(q / prior), 0.0).sum(-1).mean()
    active = np.isfinite(problem.limits) & (spread[1:] > 0)
    violation = float(np.max(np.where(active, -room, -np.inf), initial=-np.inf))
    ball = min(1.0, np.sqrt(2 * problem.kl_limit))

    slack = np.where(active, room, 0.0)
    if feasible:
        temperature, lam = eta / unit[0], multipliers * unit[1:] / unit[0]
        total, objective = 1.0 + lam.sum(), moved[0]
        advantage = centred[0] - np.tensordot(lam, centred[1:], axes=1)
        primal = max(-slack.min(), 0.0) / ball
    else:
        weight = multipliers * unit[1:]
        scale = weight.sum()
        temperature, lam = eta / scale, weight / scale
        total, objective = 1.0, -violation
        slack = np.where(active, room + violation, 0.0)
        advantage = -np.tensordot(lam, centred[1:], axes=1)
        primal = 0.0
    primal = max(primal, (kl - problem.kl_limit) / problem.kl_limit)
    best = np.where(prior > 0, advantage, -np.inf).max(-1, keepdims=True)

    def residual(price: float, stationarity: float) -> float:
        parts = [np.abs(lam * slack).max(), abs(price * (problem.kl_limit - kl)), stationarity]
        return max(max(parts) / (ball * total + price * problem.kl_limit), primal)

    results = [residual(0.0, float((q * np.where(prior > 0, best - advantage, 0.0)).sum(-1).mean()))]
    if temperature > 0:
        tilted = prior * np.exp(np.where(prior > 0, advantage - best, 0.0) / temperature)
        log_tilted = np.where(prior > 0, advantage - best, 0.0) / temperature - np.log(tilted.sum(-1, keepdims=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            away = np.where(q > 0, q * (np.log(q / prior) - log_tilted), 0.0).sum(-1).mean()
        results.append(residual(temperature, temperature * abs(float(away))))
    return Check(residual=min(results), objective=float(objective), violation=violation, kl=float(kl))
