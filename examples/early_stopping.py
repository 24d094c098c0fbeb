"""Stop a run once its policy is within the limit and no longer improves.

`on_epoch` is called with each epoch's metrics once they are saved. If it returns "stop", the run ends; it can be
resumed like any other.
"""

from typing import Any

import cvpo


class Patience:
    """Says stop after so many evaluations within the limit without a better reward."""

    def __init__(self, limit: float, evaluations: int) -> None:
        self.limit, self.evaluations = limit, evaluations
        self.best, self.since = float("-inf"), 0

    def __call__(self, metrics: dict[str, Any]) -> str | None:
        if "eval/reward" not in metrics or metrics["eval/cost"] > self.limit:
            return None
        self.since += 1
        if metrics["eval/reward"] > self.best:
            self.best, self.since = metrics["eval/reward"], 0
        return "stop" if self.since >= self.evaluations else None


def main(steps: int = 90_000) -> cvpo.Run:
    limit = cvpo.TASKS["Car-Circle"].cost_limit
    settings = {"hidden": (64, 64), "batch_size": 128, "envs": 10, "eval_every": 2}
    run = cvpo.train(
        "Car-Circle", steps=steps, run_dir="runs/early-stopping", overwrite=True, config=settings,
        on_epoch=Patience(limit, evaluations=5),
    )  # fmt: skip
    print(f"trained for {run.metrics()[-1]['steps']:,} steps")
    return run


if __name__ == "__main__":
    main()
