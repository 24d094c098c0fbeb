"""The examples and the Python of README and tutorial run, and do what they say."""

import importlib.util
import re
from pathlib import Path

import pytest

import cvpo

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shortened(code):
    """The same with runs of one epoch."""
    return re.sub(r"\bsteps=[\d_]+", "steps=1", code)


# Steps of the shortest run, and what each line of the output must have.
SHORTEST = {
    "train": (3_000, [r"reward -?\d+, cost \d", r"reward -?\d+, cost \d", r"learning\.png"]),
    "custom_environment": (500, [r"limit +5: reward +\d", r"limit +50: reward +\d"]),
    "discrete_actions": (400, [r"limit +4: reward +\d", r"limit +40: reward +\d"]),
    "two_constraints": (400, [r"energy +\d+\.\d, noise +\d", r"energy +\d+\.\d, noise +\d"]),
    "early_stopping": (3_000, [r"trained for 3,000 steps"]),
    "sweep": (6_000, [*[r"seed \d: done, reward -?\d"] * 4, r"index\.html"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORTEST)
def test_an_example_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    steps, patterns = SHORTEST[name]
    example(name).main(steps)
    lines = capsys.readouterr().out.splitlines()
    for pattern in patterns:
        found = next((i for i, line in enumerate(lines) if re.search(pattern, line)), None)
        assert found is not None, pattern
        del lines[: found + 1]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    """As it stands, but for the number of steps. The tutorial's first block loads a run that its commands made."""
    monkeypatch.chdir(tmp_path)
    if page != "README.md":
        cvpo.train("Car-Circle", steps=1, run_dir="runs/Car-Circle/cvpo/seed-0", quiet=True)
    blocks = re.findall(r"^```python\n(.*?)^```", (EXAMPLES.parent / page).read_text(), re.M | re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(shortened(block), {"__name__": "__main__"})
    shown = capsys.readouterr().out
    assert shown.count("% confidence") == (2 if page == "README.md" else 1), shown  # of evaluations


@pytest.mark.slow
def test_the_notebook_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(shortened((EXAMPLES / "walkthrough.py").read_text()), {"__name__": "__main__"})
    assert len(re.findall(r"^limit (5|inf): reward ", capsys.readouterr().out, re.M)) == 2
    assert {path.name for path in (tmp_path / "runs" / "walkthrough").glob("*.png")} == {"curves.png", "policy.png"}


def test_every_example_is_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*SHORTEST, "optuna_study", "walkthrough"}


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
