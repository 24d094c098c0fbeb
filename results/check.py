"""What docs/results.md says in numbers, from the runs below a directory: `python results/check.py [results/runs]`.

- The limit: mean and third quartile of the evaluations' costs in the last fifth of training, all seeds together.
- The reward there, and its share of what each unconstrained method has after as many steps.
- Violations: all cost paid until the smoothed training reward first is CVPO's final one, or 90% of it; the median over
  seeds, of two the better, infinite if they never get there.
"""

from __future__ import annotations

import sys

import numpy as np

from cvpo.algorithms.registry import lookup
from cvpo.report.load import RunRecord, load_runs
from cvpo.report.statistics import cost_to_reach, five_numbers, mean, trailing_mean
from cvpo.report.study import Study, final_reward

WINDOW = 20_000  # steps over which the training reward is smoothed: single epochs are lucky at times


def smoothed(run: RunRecord) -> np.ndarray:
    return trailing_mean(run.steps, run.reward, WINDOW)


def paid_until(run: RunRecord, reward: float) -> float:
    return cost_to_reach(run.cumulative_costs[0], smoothed(run), reward)


def lower_median(values: list[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]


def reward_by(run: RunRecord, steps: float) -> float:
    """Mean training reward of the fifth of training that ends at `steps`."""
    return mean(run.reward[(run.steps > 0.8 * steps) & (run.steps <= steps)])


def check(study: Study, task: str) -> None:
    ours = study.select(task, "CVPO")
    limit, steps = study.limits(task)[0], max(run.steps[-1] for run in ours)
    evaluated = np.concatenate([run.eval_costs[0][run.converged] for run in ours])
    cost, third = mean(evaluated), five_numbers(evaluated)[3]
    reward = mean(np.array([mean(run.eval_reward[run.converged]) for run in ours]))
    rewards = [final_reward(run) for run in ours]
    minutes = max(run.wall_seconds[-1] for run in ours) / 60
    print(f"\n{task}: limit {limit:g}, {len(ours)} seeds of {steps:,.0f} steps, at most {minutes:.0f} minutes each")
    print(f"  evaluations: cost {cost:.1f}, third quartile {third:.1f}, reward {reward:.1f}")
    print(f"  training rewards of the seeds: {', '.join(f'{reward:.1f}' for reward in rewards)}")
    final = mean(np.array(rewards))
    for method in study.methods:
        runs = study.select(task, method)
        if not runs:
            continue
        paid = [lower_median([paid_until(run, share * final) for run in runs]) for share in (0.9, 1.0)]
        line = (
            f"  {method}: {paid[0]:,.0f} paid until the reward is {0.9 * final:.1f}, {paid[1]:,.0f} until {final:.1f}"
        )
        if not lookup(runs[0].algorithm).constrained:
            then = mean(np.array([reward_by(run, steps) for run in runs]))
            line += f"; reward {then:.1f} after CVPO's steps, of which CVPO has {final / then:.0%}"
        print(line)


if __name__ == "__main__":
    study = Study.of(load_runs(sys.argv[1:] or ["results/runs"])[0])
    for task in study.tasks:
        if study.select(task, "CVPO"):
            check(study, task)
        else:
            print(f"\n{task}: no runs of CVPO with its defaults to compare the others with")
