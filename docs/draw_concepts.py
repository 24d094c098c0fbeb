"""Draw the pictures of docs/concepts.md: `python docs/draw_concepts.py`. The E-step's are of the solver itself."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cvpo

IMAGES = Path(__file__).parent / "images"
REWARD, COST, POLICY, SOLUTION, LIMIT = "#0072b2", "#d55e00", "#777777", "#009e73", "#cc0000"  # colour-blind safe
KL = 0.5  # wider than the default, so that the pictures show something


def save(figure: plt.Figure, name: str) -> None:
    figure.tight_layout()
    figure.savefig(IMAGES / f"concept-{name}.png", dpi=110)
    plt.close(figure)


def tidy(axis: plt.Axes, x: str, y: str) -> None:
    axis.set(xlabel=x, ylabel=y)
    axis.spines[["top", "right"]].set_visible(False)


def expected_cost() -> None:
    """Two policies with the same mean cost: the limit is on the mean, not on each episode."""
    rng = np.random.default_rng(0)
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True)
    for axis, costs, title in (
        (axes[0], rng.normal(8, 1, 1000), "every episode costs about 8"),
        (axes[1], np.where(rng.random(1000) < 0.8, rng.normal(2, 1, 1000), rng.normal(32, 3, 1000)), "most are cheap"),
    ):
        costs = np.clip(costs, 0, None)
        axis.hist(costs, bins=np.arange(0, 46, 1.5), color=COST, alpha=0.6)
        axis.axvline(costs.mean(), color="black", label=f"mean {costs.mean():.0f}")
        axis.axvline(10, color=LIMIT, linestyle="--", label="limit 10")
        axis.set_title(title, fontsize=10)
        axis.legend(frameon=False)
        tidy(axis, "cost of an episode", "episodes")
    axes[1].set_ylabel("")
    save(figure, "expected-cost")


def plane() -> None:
    """Policies as points of reward and cost: the best one within the limit is where the frontier meets it."""
    figure, axis = plt.subplots(figsize=(7.5, 3.2))
    cost = np.linspace(0, 40, 200)
    frontier = 30 * (1 - np.exp(-cost / 12))
    rng = np.random.default_rng(1)
    some = rng.uniform(0, 40, 60)
    axis.axvspan(0, 10, color=SOLUTION, alpha=0.12, label="within the limit")
    axis.scatter(some, 30 * (1 - np.exp(-some / 12)) * rng.uniform(0.2, 0.95, 60), s=12, color=POLICY, label="policies")
    axis.plot(cost, frontier, color=REWARD, label="best reward for a cost")
    axis.axvline(10, color=LIMIT, linestyle="--")
    axis.scatter([10], [30 * (1 - np.exp(-10 / 12))], s=60, color=SOLUTION, zorder=3, label="what training looks for")
    axis.scatter([40], [frontier[-1]], s=60, color=LIMIT, zorder=3, label="best without a limit")
    axis.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    tidy(axis, "expected cost of an episode", "expected reward of an episode")
    save(figure, "plane")


def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One state with 81 candidate actions: values of reward and cost, and the old policy's weights."""
    action = np.linspace(-1, 1, 81)
    q_reward = action - 0.4 * action**2  # going right pays
    q_cost = 1 / (1 + np.exp(-12 * (action - 0.45)))  # beyond 0.45 it is dangerous
    policy = np.exp(-0.5 * ((action - 0.1) / 0.35) ** 2)
    return action, q_reward, q_cost, policy / policy.sum()


def estep_and_mstep() -> None:
    """The old policy, the E-step's weights with and without the limit, and a Gaussian fitted to them."""
    action, q_reward, q_cost, policy = problem()
    cost_now = float(policy @ q_cost)
    solutions = {
        limit: cvpo.solve_estep(q_reward[None], q_cost[None], limit, KL, log_prior=np.log(policy)[None])
        for limit in (np.inf, 0.5 * cost_now)
    }
    figure, axes = plt.subplots(1, 3, figsize=(11, 3), sharex=True)
    axes[0].plot(action, q_reward, color=REWARD, label="Q of the reward")
    axes[0].plot(action, q_cost, color=COST, label="Q of the cost")
    axes[0].fill_between(action, 12 * policy, color=POLICY, alpha=0.3, label="old policy")
    axes[0].set_title("what the critics say of each action", fontsize=10)
    tidy(axes[0], "action", "")
    axes[1].fill_between(action, policy, color=POLICY, alpha=0.3, label="old policy")
    for (limit, step), colour, style in zip(solutions.items(), (REWARD, SOLUTION), ("--", "-"), strict=True):
        weights = np.asarray(step.weights[0])
        name = "no limit" if np.isinf(limit) else "half the cost"
        label = f"{name}: cost {weights @ q_cost:.2f}"
        axes[1].plot(action, weights, style, color=colour, label=label)
    axes[1].set_title(f"E-step: the best weights within a KL of {KL:g}", fontsize=10)
    axes[1].set_ylim(top=0.1)
    tidy(axes[1], "action", "weight")
    weights = np.asarray(solutions[0.5 * cost_now].weights[0])
    mean = weights @ action
    spread = np.sqrt(weights @ (action - mean) ** 2)
    fitted = np.exp(-0.5 * ((action - mean) / spread) ** 2)
    axes[2].plot(action, weights, color=SOLUTION, label="E-step")
    axes[2].fill_between(action, policy, color=POLICY, alpha=0.3, label="old policy")
    axes[2].plot(action, fitted / fitted.sum(), color="black", label="closest Gaussian")
    axes[2].set_title("M-step: the policy is fitted to them", fontsize=10)
    axes[2].set_ylim(top=0.1)
    tidy(axes[2], "action", "weight")
    for axis in axes:
        axis.legend(frameon=False, fontsize=8)
    save(figure, "steps")


def certificate() -> None:
    """The dual bound for each multiplier, and what the solution reaches: no gap where the bound is lowest."""
    _, q_reward, q_cost, policy = problem()
    limit = 0.5 * float(policy @ q_cost)
    step = cvpo.solve_estep(q_reward[None], q_cost[None], limit, KL, log_prior=np.log(policy)[None])
    reached = float(np.asarray(step.weights[0]) @ q_reward)
    best = float(step.multipliers[0])
    multipliers = np.linspace(0, 2.5 * best, 60)
    etas = float(step.eta) * np.geomspace(0.05, 20, 400)[:, None]
    # Theorem 1 of the paper: η ε + λ limit + η log E_π exp((Q_r - λ Q_c) / η), the least over η
    inside = (q_reward - multipliers[:, None] * q_cost)[:, None, :] / etas
    bound = etas[:, 0] * KL + multipliers[:, None] * limit + etas[:, 0] * np.log(np.exp(inside) @ policy)
    figure, axis = plt.subplots(figsize=(5, 3))
    axis.plot(multipliers, bound.min(1), color=REWARD, label="dual bound")
    axis.axhline(reached, color=SOLUTION, label="reward of the solution")
    axis.axvline(best, color=POLICY, linestyle=":", label=f"the solver's multiplier, {best:.2f}")
    axis.legend(frameon=False, fontsize=8)
    axis.set_title(
        f"duality gap {float(step.duality_gap):.0e}, KKT residual {float(step.kkt_residual):.0e}", fontsize=10
    )
    tidy(axis, "multiplier λ of the cost", "expected reward")
    save(figure, "certificate")


if __name__ == "__main__":
    expected_cost()
    plane()
    estep_and_mstep()
    certificate()
