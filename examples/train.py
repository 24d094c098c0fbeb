"""Train CVPO on a built-in task, evaluate it, draw its learning curve.

A race car should circle fast and leave the safe zone in at most 20 of 300 steps. The networks are small, so this takes
about a minute. The defaults are larger, take longer and end better.
"""

import cvpo
from cvpo.report import draw_run


def main(steps: int = 90_000) -> None:
    settings = {"hidden": (64, 64), "batch_size": 128, "envs": 10, "eval_every": 5}
    run = cvpo.train("Car-Circle", steps=steps, seed=0, run_dir="runs/example", overwrite=True, config=settings)

    last = run.metrics()[-5:]
    reward = sum(epoch["train/reward"] for epoch in last) / len(last)
    cost = sum(epoch["train/cost"] for epoch in last) / len(last)
    limit = cvpo.TASKS["Car-Circle"].cost_limit
    print(f"last epochs of training: reward {reward:.0f}, cost {cost:.1f} (limit {limit:g})")

    result = cvpo.evaluate(run.path, episodes=20, seed=1)
    print(f"deterministic policy:    reward {result['reward']:.0f}, cost {result['cost']:.1f} (limit {limit:g})")
    print(f"learning curve:          {draw_run(run.path, run.path / 'learning.png')}")


if __name__ == "__main__":
    main()
