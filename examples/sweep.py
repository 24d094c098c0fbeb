"""A sweep: train every combination of tasks, algorithms, settings and seeds on all cores, then report on all of them.

Stop it at any time. Run it again to continue. The same sweep as a command:

    cvpo sweep --tasks Car-Circle --algorithms ppo-lag trpo-lag --seeds 2 --steps 60000 --output runs/sweep
    cvpo report runs/sweep
"""

from cvpo.experiments import grid, sweep
from cvpo.report import write_report


def main(steps: int = 60_000) -> None:
    specs = grid(
        tasks=["Car-Circle"],
        algorithms=["ppo-lag", "trpo-lag"],
        seeds=range(2),
        steps=steps,
        settings={},  # such as {"gae_lambda": [0.9, 0.97]}; --set gae_lambda=0.9,0.97
    )
    for run in sweep(specs, "runs/sweep"):
        reward = run.latest.get("train/reward", float("nan"))
        print(f"{run.spec.method} seed {run.spec.seed}: {run.state}, reward {reward:.0f} in the last epoch")
    print(write_report(["runs/sweep"], "runs/sweep-report"))


if __name__ == "__main__":
    main()
