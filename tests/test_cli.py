"""The command as a user types it."""

import json
import math
import re
import subprocess
import sys

import pytest

import cvpo
from cvpo import cli
from cvpo.algorithms.config import GROUPS
from cvpo.cli.app import COMMANDS
from cvpo.presets import make_config
from cvpo.runs.strict_json import to_json
from cvpo.tasks import TASKS

TINY = "--envs 2 --hidden 8 --batch-size 16 --particles 4 --eval-episodes 1 --update-ratio 0.02"


def run(capsys, *arguments):
    cli.main(arguments)
    return capsys.readouterr().out


def refused(capsys, *arguments):
    """The exit status and what is printed of a command that fails."""
    with pytest.raises(SystemExit) as exit:
        cli.main(arguments)
    return exit.value.code, capsys.readouterr().err


def help_of(capsys, *arguments):
    with pytest.raises(SystemExit) as exit:
        cli.main([*arguments, "--help"])
    assert exit.value.code == 0
    return capsys.readouterr().out


@pytest.fixture
def trained(monkeypatch):
    """What `cvpo train` would train with; it does not."""
    calls = []
    monkeypatch.setattr(
        "cvpo.training.train.train",
        lambda env, algorithm, **options: calls.append(options | {"env": env, "name": algorithm}),
    )
    return calls


# Help, lists and the version


def test_every_command_is_listed_and_explains_itself(capsys):
    overview = help_of(capsys)
    for name in COMMANDS:
        assert f"• {name} " in overview
        assert f"usage: cvpo {name}" in help_of(capsys, name)


def test_no_arguments_show_the_help(capsys):
    with pytest.raises(SystemExit) as exit:
        cli.main([])
    assert exit.value.code == 0 and "• train " in capsys.readouterr().out


def test_the_version(capsys):
    assert run(capsys, "--version") == f"cvpo {cvpo.__version__}\n"


def test_tasks_shows_names_ids_and_limits(capsys):
    text = run(capsys, "tasks")
    for task in TASKS.values():
        line = next(line for line in text.splitlines() if line.startswith(task.name))
        assert task.id in line and line.split()[-1] == f"{task.cost_limit:g}"


def test_help_lists_and_reports_do_not_wait_for_jax():
    code = """
import contextlib, sys, cvpo.cli
for arguments in ("--help", "evaluate --help", "tasks", "report no-such-directory", "train --resume --help"):
    with contextlib.suppress(SystemExit):
        cvpo.cli.main(arguments.split())
    assert "jax" not in sys.modules, arguments
    assert "torch" not in sys.modules, arguments
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_every_setting_is_a_flag_with_a_default_and_a_line_of_help(capsys):
    from cvpo.algorithms.registry import ALGORITHMS
    from cvpo.cli.setting_flags import flags, help_texts, settings_of

    for name in ("cvpo", "ppo-lag"):
        text = help_of(capsys, "train", "--algorithm", name)
        config = ALGORITHMS[name].config()
        for setting in vars(config):
            assert f"--{setting.replace('_', '-')}" in text
        assert settings_of(flags(config)) == vars(config)
        assert (
            "Discount factor of rewards, and of costs in methods without a replay" in help_texts(type(config))["gamma"]
        )


def test_flags_come_in_groups_the_everyday_ones_first(capsys):
    text = help_of(capsys, "train")
    titles = "positional", "options", *(f"{group} options" for group in GROUPS)
    order = [re.search(rf"^.{{0,4}}{title}", text, re.MULTILINE).start() for title in titles]
    assert order == sorted(order)
    assert order[1] < text.index("--steps") < text.index("--algorithm") < order[2]


def test_help_shows_the_defaults_of_the_preset(capsys):
    def default_of(flag, *arguments):
        text = " ".join(help_of(capsys, "train", *arguments).replace("│", "").split())
        return re.search(rf"{flag} .*?\(default: ([^)]*)\)", text)[1]

    assert default_of("--batch-size") == "256"
    assert default_of("--batch-size", "--preset", "paper") == "300"
    assert default_of("--batch-size", "--algorithm", "sac") == str(make_config("sac").batch_size) != "300"


def test_help_on_resuming_needs_no_run(capsys):
    assert "--resume RUN" in help_of(capsys, "train", "--resume")


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train Point-Gaol --steps 1", r"'Point-Gaol'; did you mean 'Point-Goal'"),
        ("train Point-Goal --steps 1 --algorithm cpvo", r"no algorithm 'cpvo'; did you mean .*'cvpo'"),
        ("train Point-Goal --steps 1 --preset papre", r"did you mean 'paper'"),
        ("train Point-Goal --steps 0", r"steps must be >= 1, got 0"),
        ("train Point-Goal --steps 1 --seed -1", r"seed must be >= 0, got -1"),
        ("train Point-Goal --steps 1 --cost-limit -2", r"cost_limit must be >= 0, got -2"),
        ("train Point-Goal --steps 1 --batch-size 0", r"batch_size must be >= 1, got 0"),
        ("evaluate no-such-run", r"no-such-run does not exist"),
        ("render no-such-run", r"no-such-run does not exist"),
        ("report no-such-directory", r"no-such-directory is not a directory"),
        ("report no-such-directory --watch", r"no-such-directory is not a directory"),
        ("report . --port 8000", r"--port is of --watch"),
        ("train --resume no-such-run", r"no-such-run holds no run"),
        ("train --resume=no-such-run", r"no-such-run holds no run"),
    ],
)
def test_mistakes_end_with_one_line_that_helps(capsys, arguments, message):
    status, text = refused(capsys, *arguments.split())
    assert status == 1
    assert re.search(message, text) and text.count("\n") == 1
    assert text.startswith(f"cvpo {arguments.split()[0]}: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("trian", "Available subcommands: train"),
        ("train Point-Goal", "Missing from cvpo train: --steps"),
        ("train Point-Goal --steps many", "'many' is not a whole number"),
        ("train Point-Goal --steps 1.5", "1.5 is not a whole number"),
        ("train Point-Goal --steps 1 --bach-size 3", "Unrecognized options: --bach-size, 3"),
        ("train Point-Goal --steps", "Missing value for argument"),
        ("train --algorithm", "Missing value for argument"),
        ("tasks now", "Unrecognized options: now"),
        ("train --resume some-run --gamma 0.5", "Unrecognized options: --gamma"),
    ],
)
def test_arguments_that_are_not_understood_are_explained_once(capsys, arguments, message):
    status, text = refused(capsys, *arguments.split())
    assert status == 2
    assert " ".join(text.replace("│", "").split()).count(message) == 1


def test_a_bug_keeps_its_traceback(monkeypatch):
    def explode(*_, **__):
        raise ValueError("simulator exploded")

    monkeypatch.setattr("cvpo.training.train.train", explode)
    with pytest.raises(ValueError, match="simulator exploded"):
        cli.main(["train", "Point-Goal", "--steps", "1"])


def test_ctrl_c_has_the_usual_exit_status(capsys, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("cvpo.training.train.train", interrupt)
    assert refused(capsys, "train", "Point-Goal", "--steps", "1") == (130, "")


# Settings


def test_steps_in_the_ways_that_people_write_them(trained):
    for text in ("1e6", "1_000_000", "1000k", "1M"):
        cli.main(["train", "Point-Goal", "--steps", text])
    assert [call["steps"] for call in trained] == [1_000_000] * 4


def test_a_file_of_settings_and_flags_over_it(tmp_path, trained):
    for name, text in (("s.json", '{"batch_size": 70, "gamma": 0.5}'), ("s.toml", "batch_size = 70\ngamma = 0.5")):
        (tmp_path / name).write_text(text)
        flag = "--config-file" if name == "s.json" else "--config_file"
        cli.main(["train", "Car-Goal", "--steps", "9", flag, str(tmp_path / name), "--gamma", "0.25"])
        config = trained[-1]["config"]
        assert (config.batch_size, config.gamma, trained[-1]["env"]) == (70, 0.25, "Car-Goal")


def test_the_config_of_a_run_is_a_file_of_settings(tmp_path, trained, capsys):
    file = tmp_path / "config.json"
    settings = {"gamma": 0.5, "hidden": [7, 7], "kl_stop": math.inf}
    file.write_text(to_json({"algorithm": "ppo-lag", "steps": 5, "config": settings}))
    arguments = ["train", "Car-Goal", "--steps", "9", "--config-file", str(file)]
    cli.main([*arguments, "--algorithm", "ppo-lag"])
    config = trained[0]["config"]
    assert (config.gamma, config.hidden, config.kl_stop, trained[0]["steps"]) == (0.5, (7, 7), math.inf, 9)
    status, text = refused(capsys, *arguments)
    assert status == 1 and "holds settings of ppo-lag, not of cvpo; add --algorithm ppo-lag" in text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.json", b"{", "is not JSON"),
        ("s.toml", b"a =", "is not TOML"),
        ("s.json", b"[1, 2]", "it holds a list"),
        ("s.json", b"null", "it holds null"),
        ("s.json", b"3", "it holds 3"),
        ("s.json", b"\x80\x00\xff", "is not text"),
        ("s.yaml", b"a: 1", "must end in .json or .toml"),
        ("s.json", b'{"gama": 1}', "cvpo has no setting 'gama'; did you mean 'gamma'"),
        ("s.json", b'{"gamma": "high"}', "gamma must be float, got 'high'"),
        ("none.json", None, "cannot be read: No such file"),
    ],
)
def test_a_file_that_holds_no_settings(tmp_path, capsys, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    status, text = refused(capsys, "train", "Car-Goal", "--steps", "9", "--config-file", str(tmp_path / name))
    assert status == 1 and message in text and text.count("\n") == 1


def test_the_paper_preset_has_the_papers_table(trained):
    cli.main(["train", "Point-Goal", "--steps", "1", "--preset", "paper"])
    config = trained[0]["config"]
    assert (config.hidden, config.batch_size, config.particles, config.mstep_iterations) == ((256, 256), 300, 32, 6)
    assert (config.kl_estep, config.kl_mean, config.kl_scale) == (0.1, 0.001, 0.0001)
    assert (config.polyak, config.gamma, config.envs, config.cost_signal) == (0.995, 0.99, 20, "critic")


def test_every_task_has_the_same_settings(trained):
    for words in ("Point-Goal", "cvpo/CarCircle-v0", "--quiet Car-Circle", "--batch-size 256 SafetyHopperVelocity"):
        cli.main(["train", *words.split(), "--steps", "1"])
    assert len({call["config"] for call in trained}) == 1


# Whole commands


def test_modules_of_environments_are_found_in_the_current_directory(tmp_path):
    (tmp_path / "my_module.py").write_text("import gymnasium")
    code = "import cvpo.cli; cvpo.cli.main(['train', 'my_module:Missing-v0', '--steps', '1'])"
    # -P: as in an installed command, the path does not begin with the current directory
    ended = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 1 and "no task or environment 'Missing-v0'" in ended.stderr


def test_train_evaluate_and_render_a_run_and_resume_it(tmp_path, capsys, request):
    path = str(tmp_path / "run")
    out = run(capsys, "train", "Car-Circle", "--steps", "600", "--run-dir", path, *TINY.split())
    assert "run directory" in out and "cost<=20" in out
    result = json.loads(run(capsys, "evaluate", path, "--episodes", "2", "--json"))
    assert result["episodes"] == 2 and len(result["rewards"]) == 2 and result["cost_limit"] == 20
    film = run(capsys, "render", path, "--output", str(tmp_path / "film.gif")).strip()
    from PIL import Image

    with Image.open(film) as picture:
        assert picture.n_frames > 100
    calls = request.getfixturevalue("trained")
    cli.main(["train", "--resume", path, "--steps", "1.2k", "--quiet"])
    saved = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (calls[0]["env"], calls[0]["steps"], calls[0]["resume"]) == (saved["source"], 1200, True)
    assert json.loads(json.dumps(vars(calls[0]["config"]))) == saved["config"]
