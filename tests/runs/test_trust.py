"""A run directory from anybody runs none of its code unasked."""

import json
import sys

import pytest

import cvpo
from cvpo import cli
from cvpo.runs.trust import REMOTE, UntrustedCode, require_trust, require_trusted_cluster

MODULE = """
from pathlib import Path
import gymnasium as gym
from toys import Bandit

Path(__file__).with_name("ran").touch()
gym.register("Strange-v0", Bandit, max_episode_steps=10)
"""
SOURCE = "strange:Strange-v0"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose environment is made by a module that lies beside its files, with a note of whether that was run."""
    path = tmp_path_factory.mktemp("stranger")
    (path / "strange.py").write_text(MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(path)
        cvpo.train(
            SOURCE, "ppo-lag", steps=20, cost_limit=3.0, run_dir=path, quiet=True,
            config={"envs": 2, "hidden": [4], "eval_episodes": 1},
        )  # fmt: skip
    return path


@pytest.fixture(autouse=True)
def forgotten(run, monkeypatch):
    """The module has not been imported, and the command is called where it lies."""
    (run / "ran").unlink(missing_ok=True)
    monkeypatch.delitem(sys.modules, "strange", raising=False)
    monkeypatch.chdir(run)
    monkeypatch.setattr(sys, "path", [*sys.path])


COMMANDS = ["evaluate .", "render . --output film.gif", "inspect .", "record . --output steps.npz"]


@pytest.mark.parametrize("arguments", [*COMMANDS, "train --resume . --steps 40"])
def test_a_module_that_only_the_run_names_is_shown_and_not_imported(run, capsys, arguments):
    with pytest.raises(SystemExit, match="1"):
        cli.main(arguments.split())
    said = capsys.readouterr().err
    assert SOURCE in said and "--trust" in said and said.count("\n") == 1
    assert not (run / "ran").exists()


@pytest.mark.parametrize("consent", ["--trust", f"--env {SOURCE}"])
def test_a_module_that_the_user_names_or_trusts_is_imported(run, capsys, consent):
    cli.main(f"evaluate . --episodes 1 --json {consent}".split())
    assert '"episodes": 1' in capsys.readouterr().out
    assert (run / "ran").exists()


def test_a_trusted_run_is_recorded(run):
    cli.main(["record", ".", "--output", "steps.npz", "--episodes", "1", "--trust"])
    assert (run / "ran").exists() and (run / "steps.npz").exists()


def test_a_trusted_run_goes_on(run):
    cli.main(["train", "--resume", ".", "--steps", "40", "--quiet", "--trust"])
    assert (run / "ran").exists()
    assert len(cvpo.Run(run).metrics()) == 2


def test_the_current_directory_is_not_searched_for_what_nobody_named(run):
    cli.main(["tasks"])
    assert str(run) not in sys.path


def test_names_that_import_nothing_need_no_trust():
    for source in ("Point-Goal", "Pendulum-v1", "json:Pendulum-v1"):  # json is imported already
        assert require_trust(source, "it", trust=False) == source
    with pytest.raises(UntrustedCode, match=r"runs/a was trained on 'a.b:C-v0', which is code: the module 'a.b'"):
        require_trust("a.b:C-v0", "runs/a", trust=False)
    assert require_trust("a.b:C-v0", "runs/a", trust=True) == "a.b:C-v0"


@pytest.mark.parametrize(
    ("source", "python"),
    [("Pendulum-v1", "/tmp/evil"), (REMOTE + json.dumps({"env": "X", "python": "/tmp/evil"}), None)],
)
def test_an_interpreter_that_only_the_run_names_is_not_started(source, python):
    with pytest.raises(UntrustedCode, match=r"another interpreter, .*/tmp/evil.* would be started"):
        require_trust(source, "runs/a", False, python)
    assert require_trust(source, "runs/a", True, python) == source


def test_a_cluster_that_a_file_names_is_not_connected_to_unasked():
    with pytest.raises(UntrustedCode, match=r"runs/a .* Ray cluster at 10\.0\.0\.1:6379.*--trust.*--envs-on-ray"):
        require_trusted_cluster("10.0.0.1:6379", "runs/a", trust=False)
    require_trusted_cluster("10.0.0.1:6379", "runs/a", trust=True)
    require_trusted_cluster(None, "runs/a", trust=False)
