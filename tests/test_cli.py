"""The command as a user types it."""

import json
import subprocess
import sys

import pytest

from cvpo import cli
from cvpo.tasks import TASKS


def run(capsys, *arguments):
    cli.main(arguments)
    return capsys.readouterr().out


def test_every_command_is_listed_and_explains_itself(capsys):
    text = run(capsys, "--help")
    for name in cli.COMMANDS:
        assert f"  {name}" in text
        with pytest.raises(SystemExit) as exit:
            cli.main([name, "--help"])
        assert exit.value.code == 0
        assert f"cvpo {name}" in capsys.readouterr().out


def test_tasks_shows_names_ids_and_limits(capsys):
    text = run(capsys, "tasks")
    for task in TASKS.values():
        line = next(line for line in text.splitlines() if line.startswith(task.name))
        assert task.id in line and line.split()[-1] == f"{task.cost_limit:g}"


def test_listing_tasks_does_not_wait_for_jax():
    code = "import sys, cvpo.cli; cvpo.cli.main(['tasks']); assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_modules_of_environments_are_found_in_the_current_directory(tmp_path):
    (tmp_path / "my_module.py").write_text("import gymnasium")
    code = "import cvpo.cli; cvpo.cli.main(['train', 'my_module:Missing-v0', '--steps', '1'])"
    # -P: as in an installed command, the path does not begin with the current directory
    ended = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 1 and "no task or environment 'Missing-v0'" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], r"cvpo: no command 'trian'; did you mean 'train'"),
        (["train", "Point-Gaol", "--steps", "1"], r"'Point-Gaol'; did you mean 'Point-Goal'"),
        (["train", "Point-Goal", "--steps", "1", "--algorithm", "cpvo"], r"no algorithm 'cpvo'"),
        (["train", "Point-Goal", "--steps", "1", "--preset", "papre"], r"did you mean 'paper'"),
        (["train", "Point-Goal", "--steps", "1", "--cost-limit", "-2"], r"cost_limit must be >= 0, got -2"),
        (["train", "Point-Goal", "--steps", "1", "--batch-size", "0"], r"batch_size must be >= 1, got 0"),
        (["evaluate", "no-such-run"], r"no policy at no-such-run"),
        (["train", "--resume", "no-such-run"], r"no-such-run holds no run"),
        (["train", "--resume=no-such-run"], r"no-such-run holds no run"),
    ],
)
def test_mistakes_end_with_one_line_that_helps(arguments, message):
    with pytest.raises(SystemExit, match=message):
        cli.main(arguments)


def test_a_file_of_settings_and_flags_over_it(tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr("cvpo.training.train.train", lambda env, algorithm, **options: seen.update(options, env=env))
    for name, text in (("s.json", '{"batch_size": 70, "gamma": 0.5}'), ("s.toml", "batch_size = 70\ngamma = 0.5")):
        (tmp_path / name).write_text(text)
        flag = "--config-file" if name == "s.json" else "--config_file"
        cli.main(["train", "Car-Goal", "--steps", "9", flag, str(tmp_path / name), "--gamma", "0.25"])
        assert (seen["config"].batch_size, seen["config"].gamma, seen["env"]) == (70, 0.25, "Car-Goal")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(SystemExit, match="is not JSON"):
        cli.main(["train", "Car-Goal", "--steps", "9", "--config-file", str(tmp_path / "bad.json")])


def test_the_paper_preset_has_the_papers_table(monkeypatch):
    seen = {}
    monkeypatch.setattr("cvpo.training.train.train", lambda env, algorithm, **options: seen.update(options))
    cli.main(["train", "Point-Goal", "--steps", "1", "--preset", "paper"])
    config = seen["config"]
    assert (config.hidden, config.batch_size, config.particles, config.mstep_iterations) == ((256, 256), 300, 32, 6)
    assert (config.kl_estep, config.kl_mean, config.kl_scale) == (0.1, 0.001, 0.0001)
    assert (config.polyak, config.gamma, config.envs, config.cost_signal) == (0.995, 0.99, 20, "critic")


def test_a_preset_may_hold_settings_of_a_task(monkeypatch):
    seen = []
    monkeypatch.setattr("cvpo.training.train.train", lambda env, algorithm, **options: seen.append(options["config"]))
    for words in (
        "Point-Goal", "cvpo/CarCircle-v0", "Car-Circle --gamma 0.5", "Car-Circle --preset paper",
        "--quiet Car-Circle", "--run-dir Car-Circle Point-Goal",
    ):  # fmt: skip
        cli.main(["train", *words.split(), "--steps", "1"])
    assert [(config.gamma, config.retrace) for config in seen] == [
        (0.99, False), (0.97, True), (0.5, True), (0.99, False), (0.97, True), (0.99, False)
    ]  # fmt: skip


def test_train_evaluate_and_render_a_run(tmp_path, capsys):
    tiny = "--envs 2 --hidden 8 --batch-size 16 --particles 4 --eval-episodes 1 --update-ratio 0.02"
    path = str(tmp_path / "run")
    out = run(capsys, "train", "Car-Circle", "--steps", "600", "--run-dir", path, *tiny.split())
    assert "run directory" in out and "cost<=20" in out
    result = json.loads(run(capsys, "evaluate", path, "--episodes", "2"))
    assert result["episodes"] == 2 and len(result["rewards"]) == 2 and result["cost_limit"] == 20
    film = run(capsys, "render", path, "--output", str(tmp_path / "film.gif")).strip()
    from PIL import Image

    with Image.open(film) as picture:
        assert picture.n_frames > 100
