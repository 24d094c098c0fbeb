"""The run directory: what is written can be read, nothing is lost or overwritten, one process at a time."""

import errno
import json
import math
import os
import subprocess
import sys
import types
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cvpo.errors import Unavailable, UserError
from cvpo.runs import provenance
from cvpo.runs.directory import RunDirectory, RunDirectoryError, read_config, read_metrics
from cvpo.runs.sinks import TensorBoardSink, WandbSink, check_sinks

RUN = {
    "env": "Point-Goal", "source": "Point-Goal", "algorithm": "cvpo", "steps": 100, "seed": 3, "cost_limit": [10.0],
    "preset": "default", "config": {},
}  # fmt: skip


def line(epoch: int) -> dict:
    return {"epoch": epoch, "steps": 100 * (epoch + 1), "train/reward": epoch / 7}


def with_epochs(path: Path, epochs: int) -> RunDirectory:
    run = RunDirectory.create(path, RUN)
    for epoch in range(epochs):
        run.append_metrics(line(epoch))
    return run


def test_config_comes_back_with_its_provenance(tmp_path):
    config = RUN | {"cost_limit": [10.0, math.inf], "config": {"hidden": (256, 256), "fast": True, "length": None}}
    with RunDirectory.create(tmp_path / "deep" / "run", config) as run:
        found = read_config(run.path)
    provenance = found.pop("provenance")
    assert found == config | {"config": {"hidden": [256, 256], "fast": True, "length": None}}
    assert provenance["versions"]["numpy"] == np.__version__
    assert provenance["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"cvpo", "jax", "jaxlib", "mujoco", "gymnasium", "optax"} < provenance["versions"].keys()


def test_git_revision_and_whether_tracked_files_differ(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert provenance._git_revision() is None

    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        return subprocess.run(["git", *identity, *arguments], check=True, capture_output=True, text=True).stdout

    git("init")
    Path("file").write_text("1")
    git("add", "file")
    git("commit", "-m", "first")
    revision = git("rev-parse", "HEAD").strip()
    Path("untracked").write_text("runs and notes do not change the code")
    assert provenance._git_revision() == {"revision": revision, "dirty": False}
    Path("file").write_text("2")
    assert provenance._git_revision() == {"revision": revision, "dirty": True}


@pytest.mark.parametrize("means", ["fsmonitor", "post-index-change", "filter"])
def test_a_repository_in_the_current_directory_runs_nothing(tmp_path, monkeypatch, means):
    """Somebody else's repository, unpacked here, has commands that `git status` would run."""
    monkeypatch.chdir(tmp_path)
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    git = lambda *arguments: subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)  # noqa: E731
    git("init")
    Path("file").write_text("1")
    Path(".gitattributes").write_text("file filter=evil\n")
    git("add", ".")
    git("commit", "-m", "first")
    script = tmp_path / ".git" / "evil"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    script.chmod(0o755)
    if means == "fsmonitor":
        git("config", "core.fsmonitor", str(script))
    elif means == "filter":
        git("config", "filter.evil.clean", str(script))
    else:
        hooks = tmp_path / ".git" / "hooks"
        hooks.mkdir(exist_ok=True)
        script.rename(hooks / "post-index-change")
    Path("file").write_text("2")  # of the same size: git must look into it
    for name in ("file", ".gitattributes"):  # the second has changed only by its time: git writes that down
        os.utime(name, (1, 1))
    found = provenance._git_revision()
    assert found["dirty"] == (None if means == "filter" else True)
    assert not (tmp_path / "ran").exists()
    git("status")
    assert (tmp_path / "ran").exists()  # it would have


FLOATS = st.floats(allow_nan=True, allow_infinity=True)
SCALARS = st.one_of(st.integers(-(2**60), 2**60), FLOATS, FLOATS.map(np.float64), st.booleans(), st.none())


@settings(deadline=None, max_examples=60)
@given(values=st.lists(st.dictionaries(st.text(max_size=8), SCALARS, max_size=4), max_size=4))
def test_metrics_come_back_exactly_and_the_file_is_strict_json(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("metrics")
    with RunDirectory.create(path, RUN) as run:
        for metrics in values:
            run.append_metrics(metrics)
    np.testing.assert_equal(read_metrics(path), values)  # NaN equals NaN here

    def refuse(token):
        raise AssertionError(f"{token} is not JSON")

    metrics_file = path / "metrics.jsonl"
    if values:
        assert [len(json.loads(row, parse_constant=refuse)) for row in metrics_file.open()] == [len(v) for v in values]


def test_array_scalars_are_numbers(tmp_path):
    with RunDirectory.create(tmp_path, RUN) as run:
        run.append_metrics({"a": jnp.float32(0.5), "b": np.int64(7), "c": jnp.float32(jnp.nan), "d": np.array([1, 2])})
    assert (tmp_path / "metrics.jsonl").read_text() == '{"a": 0.5, "b": 7, "c": "NaN", "d": [1, 2]}\n'


def test_a_value_that_json_cannot_hold_is_refused_and_nothing_is_made(tmp_path):
    with pytest.raises(TypeError, match="got <object object"):
        RunDirectory.create(tmp_path / "run", {"env": object()})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("part", ["config.json", "metrics.jsonl", "checkpoints", "policy"])
def test_a_directory_with_any_part_of_a_run_is_not_overwritten_unasked(tmp_path, part):
    (tmp_path / part).mkdir()
    with pytest.raises(
        RunDirectoryError, match=r"already holds a run; resume it .*, choose another directory .*, or delete it"
    ):
        RunDirectory.create(tmp_path, RUN)
    assert (tmp_path / part).is_dir()
    RunDirectory.create(tmp_path, RUN, overwrite=True).close()  # the refusal left no lock behind


def test_overwrite_removes_the_old_run_and_nothing_else(tmp_path):
    with with_epochs(tmp_path, 3) as run:
        run.checkpoints.mkdir()
        (run.checkpoints / "epoch-000003.safetensors").touch()
    for of_the_old_policy in ("videos", "inspect"):
        (tmp_path / of_the_old_policy).mkdir()
        (tmp_path / of_the_old_policy / "film.gif").touch()
    (tmp_path / "notes.txt").write_text("mine")
    with RunDirectory.create(tmp_path, RUN | {"seed": 4}, overwrite=True) as run:
        assert read_config(tmp_path)["seed"] == 4
        assert read_metrics(tmp_path) == []
        assert not any((tmp_path / name).exists() for name in ("checkpoints", "videos", "inspect"))
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_run_cannot_be_where_a_file_is(tmp_path):
    (tmp_path / "file").touch()
    for place, reason in (("file", "File exists; .* choose another"), ("file/run", "Not a directory; .* is a file")):
        with pytest.raises(RunDirectoryError, match=f"could not write {tmp_path / place}: {reason}"):
            RunDirectory.create(tmp_path / place, RUN)


@pytest.mark.parametrize("read", [read_config, read_metrics, RunDirectory.open])
@pytest.mark.parametrize("place", ["absent", "."])
def test_a_directory_without_a_run_says_so(tmp_path, read, place):
    with pytest.raises(RunDirectoryError, match=r"holds no run: cannot read config.json"):
        read(tmp_path / place)
    assert list(tmp_path.iterdir()) == []


def test_a_run_before_its_first_epoch_has_no_metrics(tmp_path):
    with RunDirectory.create(tmp_path, RUN) as run:
        assert read_metrics(tmp_path) == []
        run.truncate_metrics(-1)
        assert read_metrics(tmp_path) == []


def test_reading_while_a_line_is_being_written(tmp_path):
    with_epochs(tmp_path, 2).close()
    whole = (tmp_path / "metrics.jsonl").read_bytes()
    first = len(whole.splitlines(keepends=True)[0])
    for length in range(first, len(whole)):
        (tmp_path / "metrics.jsonl").write_bytes(whole[:length])
        assert read_metrics(tmp_path) == [line(0)]


def test_a_resumed_run_goes_on_after_the_epoch_of_its_checkpoint(tmp_path):
    with_epochs(tmp_path, 4).close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 5, "ste')  # killed while writing
    with RunDirectory.open(tmp_path) as run:
        run.truncate_metrics(after_epoch=2)
        run.append_metrics(line(3))
    assert read_metrics(tmp_path) == [line(0), line(1), line(2), line(3)]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([0, 1, 3], "has epoch 3 where epoch 2 belongs, but the newest checkpoint is of epoch 3"),
        ([0, 1, 2], "has no epoch 3, but the newest checkpoint is of epoch 3"),
        ([0, 1, 1, 2, 3], "has epoch 1 where epoch 2 belongs"),
        ([], "has no epoch 0"),
    ],
)
def test_a_checkpoint_of_epochs_that_the_metrics_do_not_have_is_not_gone_on_from(tmp_path, lines, words):
    with with_epochs(tmp_path, 0) as run:
        for epoch in lines:
            run.append_metrics(line(epoch))
        with pytest.raises(RunDirectoryError, match=words):
            run.truncate_metrics(after_epoch=3)
    assert read_metrics(tmp_path) == [line(epoch) for epoch in lines]  # nothing was cut


def test_what_follows_the_checkpoint_may_be_anything(tmp_path):
    """A computer that lost its power may leave any bytes behind those that were flushed."""
    with_epochs(tmp_path, 2).close()
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b"\0\0\xff\n\0")
    with RunDirectory.open(tmp_path) as run:
        run.truncate_metrics(after_epoch=1)
    assert read_metrics(tmp_path) == [line(0), line(1)]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (b"[]", "config.json holds a list, \\[\\], where an object"),
        (b"\xff\xfe", "config.json is not text, at byte 0"),
        (b"[" * 100_000, "config.json is nested too deeply"),
        (b'{"env": "\\ud800"}', "config.json has half a character"),
        (b"{}", "config.json lacks 'env'"),
        ({"seed": "3"}, "'seed' in .*config.json must be a whole number, got text, '3'"),
        ({"seed": True}, "'seed' in .*config.json must be a whole number, got true or false, True"),
        ({"config": []}, "'config' in .*config.json must be an object, got a list"),
        ({"cost_limit": ["low"]}, "'cost_limit' in .*config.json must be a number .*got text, 'low'"),
        ({"provenance": {"id": "x"}}, "the provenance of .*config.json lacks 'versions'"),
    ],
)
def test_a_strangers_settings_are_one_clear_line(tmp_path, config, words):
    if isinstance(config, dict):
        config = json.dumps(RUN | {"provenance": {"id": "x", "versions": {}}} | config).encode()
    (tmp_path / "config.json").write_bytes(config)
    with pytest.raises(UserError, match=words) as error:
        read_config(tmp_path)
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"epoch": 0}\n\x80\x81\n', "metrics.jsonl, line 2 is not text"),
        (b"[]\n", r"metrics.jsonl, line 1 holds a list"),
        (b"[" * 100_000 + b"\n", "metrics.jsonl, line 1 is nested too deeply"),
    ],
)
def test_a_strangers_metrics_are_one_clear_line(tmp_path, content, words):
    with_epochs(tmp_path, 0).close()
    (tmp_path / "metrics.jsonl").write_bytes(content)
    with pytest.raises(UserError, match=words):
        read_metrics(tmp_path)


def test_nothing_is_written_where_a_link_points_to(tmp_path):
    private = tmp_path / "private"
    private.write_text("mine")
    run = with_epochs(tmp_path / "run", 0)
    for name in ("metrics.jsonl", "config.json.unfinished"):
        (run.path / name).symlink_to(private)
    with pytest.raises(RunDirectoryError, match=r"metrics.jsonl: .*; it is a link; remove it"):
        run.append_metrics(line(0))
    with pytest.raises(OSError):
        run.set_steps(7)
    run.close()
    (run.path / ".lock").unlink()
    (run.path / ".lock").symlink_to(private)
    with pytest.raises(RunDirectoryError, match="it is a link"):
        RunDirectory.open(run.path)
    assert private.read_text() == "mine"


def test_a_damaged_line_is_named(tmp_path):
    with_epochs(tmp_path, 3).close()
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text().replace('"epoch": 1', '"epoch" 1'))
    with pytest.raises(UserError, match=r"metrics.jsonl, line 2 is not JSON"):
        read_metrics(tmp_path)


def test_a_full_disk_says_so_and_loses_no_earlier_line(tmp_path, monkeypatch):
    run = with_epochs(tmp_path, 2)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(
            RunDirectoryError, match=r"metrics.jsonl: No space left on device; free some space; then resume"
        ):
            run.append_metrics(line(2))
    run.close()
    assert read_metrics(tmp_path)[:2] == [line(0), line(1)]


def test_other_versions_are_told_when_a_run_is_resumed(tmp_path, recwarn):
    with_epochs(tmp_path, 1).close()
    RunDirectory.open(tmp_path).close()
    assert not recwarn
    config = json.loads((tmp_path / "config.json").read_text())
    config["provenance"]["versions"]["jax"] = "0.0.1"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.warns(UserWarning, match=r"started with other versions \(jax 0.0.1 -> "):
        RunDirectory.open(tmp_path).close()


HOLD = (
    "import sys; from cvpo.runs.directory import *; run = RunDirectory.open(sys.argv[1]); "
    "print('held', flush=True); input()"
)


def test_one_process_at_a_time_and_a_kill_frees_the_directory(tmp_path):
    with_epochs(tmp_path, 1).close()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], **pipes) as other:
        assert other.stdout.readline() == "held\n"
        for enter in (RunDirectory.open, lambda path: RunDirectory.create(path, RUN, overwrite=True)):
            with pytest.raises(RunDirectoryError, match=f"another process is training in {tmp_path}"):
                enter(tmp_path)
        assert read_metrics(tmp_path) == [line(0)]  # reading needs no lock, and nothing was deleted
        other.kill()
    RunDirectory.open(tmp_path).close()


def test_reading_a_run_needs_no_jax():
    check = "import sys; import cvpo.runs.directory, cvpo.report; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def tensorboard_steps(directory: Path) -> list[tuple[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(directory)).Reload()
    return [(event.step, event.value) for event in events.Scalars("train/reward")]


def test_tensorboard_shows_each_step_of_a_resumed_run_once(tmp_path):
    pytest.importorskip("tensorboard")
    first = TensorBoardSink(tmp_path)
    for epoch in range(1, 5):
        first.write({"steps": 100 * epoch, "train/reward": float(epoch), "note": "text is left out"})
    first.close()
    resumed = TensorBoardSink(tmp_path, after_steps=200)  # the checkpoint was of epoch 2
    for epoch in range(3, 6):
        resumed.write({"steps": 100 * epoch, "train/reward": float(-epoch)})
    resumed.close()
    assert tensorboard_steps(tmp_path) == [(100, 1), (200, 2), (300, -3), (400, -4), (500, -5)]


def test_wandb_gets_numbers_by_steps_under_an_id_that_resuming_keeps(tmp_path, monkeypatch):
    calls = []

    def init(**options):
        calls.append(("init", options["id"], options["resume"], options["config"]["seed"]))
        log = lambda numbers, step: calls.append(("log", numbers, step))  # noqa: E731
        return types.SimpleNamespace(log=log, finish=lambda: calls.append(("finish",)))

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    for enter in (lambda: with_epochs(tmp_path, 0), lambda: RunDirectory.open(tmp_path)):
        with enter() as run:
            sink = WandbSink(run)
            sink.write({"steps": 100, "train/reward": np.float32(0.5), "note": "text is left out"})
            sink.close()
    run_id = read_config(tmp_path)["provenance"]["id"]
    once = [("init", run_id, "allow", 3), ("log", {"steps": 100.0, "train/reward": 0.5}, 100), ("finish",)]
    assert calls == once * 2


@pytest.mark.parametrize("extra", ["wandb", "tensorboard"])
def test_a_missing_extra_is_named(monkeypatch, extra):
    monkeypatch.setitem(sys.modules, extra, None)
    check_sinks(tensorboard=extra != "tensorboard", wandb=False)
    with pytest.raises(Unavailable, match=rf"pip install '\.\[{extra}\]'"):
        check_sinks(tensorboard=extra == "tensorboard", wandb=extra == "wandb")
