"""Search settings with Optuna, and end hopeless trials early. Needs, in a clone: pip install ".[optuna]"

A trial's value is its reward, less a penalty for cost over the limit.
"""

from typing import Any

import optuna

import cvpo

TASK = "Car-Circle"


def score(metrics: dict[str, Any]) -> float:
    limit = cvpo.TASKS[TASK].cost_limit
    return metrics["eval/reward"] - 5.0 * max(0.0, metrics["eval/cost"] - limit)


def objective(trial: optuna.Trial, steps: int) -> float:
    settings = {
        "hidden": (64, 64), "envs": 10, "eval_every": 1,
        "policy_learning_rate": trial.suggest_float("policy_learning_rate", 1e-4, 2e-3, log=True),
        "gamma": trial.suggest_categorical("gamma", [0.97, 0.99]),
    }  # fmt: skip
    pruned = False

    def on_epoch(metrics: dict[str, Any]) -> str | None:
        nonlocal pruned
        if "eval/reward" in metrics:
            trial.report(score(metrics), metrics["epoch"])
            pruned = trial.should_prune()
        return "stop" if pruned else None

    run = cvpo.train(
        TASK, "ppo-lag", steps=steps, run_dir=f"runs/optuna/trial-{trial.number}", overwrite=True, quiet=True,
        config=settings, on_epoch=on_epoch,
    )  # fmt: skip
    if pruned:
        raise optuna.TrialPruned
    return score([line for line in run.metrics() if "eval/reward" in line][-1])


def main(trials: int = 20, steps: int = 90_000) -> optuna.Study:
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.MedianPruner(n_startup_trials=3))
    study.optimize(lambda trial: objective(trial, steps), n_trials=trials)
    print(study.best_params)
    return study


if __name__ == "__main__":
    main()
