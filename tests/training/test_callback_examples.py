"""The examples of callbacks do what they say."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_patience_ends_when_nothing_improves():
    patience = example("early_stopping").Patience(limit=10.0, evaluations=2)
    answers = [
        patience({"eval/reward": reward, "eval/cost": cost})
        for reward, cost in [(5, 20), (1, 5), (2, 5), (1, 5), (2, 5)]
    ]
    assert answers == [None, None, None, None, "stop"]
    assert patience({"train/reward": 3.0}) is None


@pytest.mark.slow
def test_an_optuna_study_runs_and_prunes(tmp_path, monkeypatch):
    optuna = pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    module = example("optuna_study")
    study = module.main(trials=2, steps=6_000)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "COMPLETE"]

    class Always(optuna.pruners.BasePruner):
        def prune(self, study, trial):
            return True

    study = optuna.create_study(direction="maximize", pruner=Always())
    study.optimize(lambda trial: module.objective(trial, 6_000), n_trials=1)
    assert study.trials[0].state.name == "PRUNED"
    assert len(study.trials[0].intermediate_values) == 1  # ended after its first epoch
