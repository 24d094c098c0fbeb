"""Checkpoints: what is loaded is what was saved, whatever happens to the process, the disk or the files."""

import errno
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cvpo.runs import array_file
from cvpo.runs.array_file import ArrayFileError
from cvpo.runs.checkpoint import CheckpointError, CheckpointStore

IDENTITY = {"algorithm": "cvpo", "obs_size": 3}


class Learner(NamedTuple):
    weights: dict
    count: jax.Array
    flags: tuple


def learner(epoch: int) -> Learner:
    return Learner(
        {"w": jnp.full((3, 4), epoch, jnp.float32), "b": jnp.arange(4) + epoch},
        jnp.int32(epoch),
        (jnp.array([True, False]),),
    )


def segment(epoch: int) -> dict:
    return {"obs": np.full((5, 2, 3), epoch, np.float32), "ended": np.arange(10).reshape(5, 2) == epoch}


def store(directory: Path, **options) -> CheckpointStore:
    return CheckpointStore(directory, IDENTITY, **({"replay_epochs": 4} | options))


def saved(directory: Path, epochs: int, **options) -> CheckpointStore:
    result = store(directory, **options)
    for epoch in range(1, epochs + 1):
        result.save(epoch, learner(epoch), {"steps": 10 * epoch, "cost": epoch / 3}, segment(epoch))
    return result


def assert_is_state_after(epoch: int, found) -> None:
    assert found.epoch == epoch
    assert found.counters == {"steps": 10 * epoch, "cost": epoch / 3}
    assert jax.tree.structure(found.learner) == jax.tree.structure(learner(0))
    jax.tree.map(np.testing.assert_array_equal, found.learner, learner(epoch))
    segments = list(found.segments())
    assert [e for e, _ in segments] == list(range(max(1, epoch - 3), epoch + 1))
    for e, arrays in segments:
        jax.tree.map(np.testing.assert_array_equal, arrays, segment(e))


def load_quietly(directory: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return store(directory).load(learner(0), segment(0))


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_load_gives_the_newest_state_with_its_whole_replay(tmp_path):
    saved(tmp_path, 7)
    assert_is_state_after(7, store(tmp_path).load(jax.eval_shape(lambda: learner(0)), segment(0)))


def test_no_checkpoint_is_none(tmp_path):
    assert store(tmp_path / "absent").load(learner(0)) is None


ARRAYS = st.sampled_from(
    [np.bool_, np.int8, np.int32, np.uint32, np.int64, np.float16, np.float32, np.float64]
).flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)))


@settings(deadline=None, max_examples=40)
@given(leaves=st.lists(ARRAYS, max_size=4), transpose=st.booleans())
def test_any_arrays_come_back_bit_for_bit(tmp_path_factory, leaves, transpose):
    directory = tmp_path_factory.mktemp("arrays")
    tree = [leaf.T if transpose else leaf for leaf in leaves]
    CheckpointStore(directory, {}).save(1, tree, {})
    found = CheckpointStore(directory, {}).load(tree)
    for before, after in zip(tree, found.learner, strict=True):
        assert before.dtype == after.dtype and before.shape == after.shape
        assert before.tobytes() == after.tobytes()  # NaNs and signed zeros too


def test_only_what_the_kept_checkpoints_need_stays(tmp_path):
    saved(tmp_path, 9, keep=2)
    assert names(tmp_path) == [
        *(f"epoch-00000{e}.safetensors" for e in (8, 9)),
        *(f"replay/epoch-00000{e}.safetensors" for e in (5, 6, 7, 8, 9)),  # epoch 8's replay is 5 to 8
    ]


def test_what_a_killed_save_left_is_removed_by_the_next(tmp_path):
    current = saved(tmp_path, 1)
    for name in ("epoch-000009.safetensors.unfinished", "replay/epoch-000009.safetensors.unfinished"):
        (tmp_path / name).write_bytes(b"half")
    current.save(2, learner(2), {}, segment(2))
    assert names(tmp_path) == [f"{place}epoch-00000{e}.safetensors" for place in ("", "replay/") for e in (1, 2)]


def test_a_resumed_run_keeps_the_old_segments(tmp_path):
    saved(tmp_path, 5)
    resumed = store(tmp_path)
    resumed.load(learner(0), segment(0))
    resumed.save(6, learner(6), {"steps": 60, "cost": 2.0}, segment(6))
    assert_is_state_after(6, store(tmp_path).load(learner(0), segment(0)))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def replace_by_a_sibling(path: Path) -> None:
    path.write_bytes(next(other for other in sorted(path.parent.glob("*.safetensors")) if other != path).read_bytes())


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, empty, Path.unlink, replace_by_a_sibling])
def test_a_damaged_segment_falls_back_and_names_the_file(tmp_path, damage):
    saved(tmp_path, 5)
    path = tmp_path / "replay/epoch-000005.safetensors"
    damage(path)
    with pytest.warns(UserWarning, match=f"epoch 5 is passed over: {path}"):
        found = store(tmp_path).load(learner(0), segment(0))
    assert_is_state_after(4, found)


@pytest.mark.parametrize("damage", [truncate, flip_a_bit, empty])
def test_a_damaged_checkpoint_falls_back_and_the_run_goes_on(tmp_path, damage):
    saved(tmp_path, 5)
    path = tmp_path / "epoch-000005.safetensors"
    damage(path)
    resumed = store(tmp_path)
    with pytest.warns(UserWarning, match=f"epoch 5 is passed over: {path}"):
        assert_is_state_after(4, resumed.load(learner(0), segment(0)))
    resumed.save(5, learner(5), {"steps": 50, "cost": 5 / 3}, segment(5))
    assert_is_state_after(5, store(tmp_path).load(learner(0), segment(0)))


@settings(deadline=None, max_examples=60)
@given(position=st.integers(0, 10_000), bit=st.integers(0, 7), in_segment=st.booleans())
def test_no_flipped_bit_is_ever_loaded(tmp_path_factory, position, bit, in_segment):
    directory = tmp_path_factory.mktemp("flip")
    saved(directory, 2)
    path = directory / ("replay" if in_segment else "") / "epoch-000002.safetensors"
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= 1 << bit
    path.write_bytes(content)
    found = load_quietly(directory)
    assert_is_state_after(found.epoch, found)  # a bit that no reader looks at may leave epoch 2 as it was


def test_nothing_whole_is_an_error(tmp_path):
    saved(tmp_path, 3)
    for path in tmp_path.glob("*.safetensors"):
        truncate(path)
    with pytest.warns(UserWarning), pytest.raises(CheckpointError, match=f"none of the 3 checkpoints in {tmp_path}"):
        store(tmp_path).load(learner(0), segment(0))


def test_going_back_discards_the_later_course(tmp_path):
    saved(tmp_path, 5)
    for epoch in (4, 5):
        truncate(tmp_path / f"epoch-00000{epoch}.safetensors")
    resumed = store(tmp_path)
    with pytest.warns(UserWarning):
        resumed.load(learner(0), segment(0))
    resumed.save(4, learner(4), {"steps": 40, "cost": 4 / 3}, segment(4))
    assert_is_state_after(4, store(tmp_path).load(learner(0), segment(0)))
    assert names(tmp_path)[-1] == "replay/epoch-000004.safetensors"


def test_another_algorithm_or_observation_size_is_refused_with_both_values(tmp_path):
    saved(tmp_path, 1)
    other = CheckpointStore(tmp_path, {"algorithm": "sac_lag", "obs_size": 8})
    with pytest.raises(
        CheckpointError, match="algorithm is 'cvpo' there and 'sac_lag' here; obs_size is 3 there and 8"
    ):
        other.load(learner(0))


def test_other_shapes_dtypes_and_leaves_are_refused_with_both_values(tmp_path):
    saved(tmp_path, 1)
    other = Learner({"w": jnp.zeros((8, 4)), "c": jnp.zeros(4)}, jnp.float32(0), learner(0).flags)
    with pytest.raises(ArrayFileError) as error:
        store(tmp_path).load(other)
    for part in (
        ".weights['w'] is float32[3, 4] there and float32[8, 4] here",
        ".weights['b'] is int32[4] there and absent here",
        ".weights['c'] is absent there and float32[4] here",
        ".count is int32[] there and float32[] here",
    ):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("leaf", "remedy"),
    [(jax.random.key(0), "key_data"), ("text", "dtype <U4"), (jnp.zeros(2, jnp.bfloat16), "bfloat16")],
)
def test_leaves_without_an_array_format_are_refused_by_name(tmp_path, leaf, remedy):
    with pytest.raises(TypeError, match=rf"\['extra'\].*{remedy}"):
        CheckpointStore(tmp_path, {}).save(1, {"extra": leaf}, {})
    assert names(tmp_path) == []


def test_a_replay_and_its_segments_go_together(tmp_path):
    with pytest.raises(ValueError, match="4 epochs cannot be saved with no segment"):
        store(tmp_path).save(1, learner(1), {})
    with pytest.raises(ValueError, match="0 epochs cannot be saved with a segment"):
        CheckpointStore(tmp_path, {}).save(1, learner(1), {}, segment(1))


def test_a_file_of_another_format_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(array_file, "FORMAT", 99)
    saved(tmp_path, 1)
    monkeypatch.undo()
    with pytest.raises(ArrayFileError, match="has format 99; this version of cvpo reads format 2"):
        store(tmp_path).load(learner(0), segment(0))


def test_a_checkpoint_under_the_name_of_a_later_epoch_is_not_that_epoch(tmp_path):
    saved(tmp_path, 3)
    (tmp_path / "epoch-000009.safetensors").write_bytes((tmp_path / "epoch-000003.safetensors").read_bytes())
    with pytest.warns(UserWarning, match=r"epoch-000009\S+ holds the checkpoint of epoch 3, not of 9"):
        assert_is_state_after(3, store(tmp_path).load(learner(0), segment(0)))


def test_a_segment_that_all_checkpoints_need_is_named_if_it_is_damaged(tmp_path):
    saved(tmp_path, 5)
    path = tmp_path / "replay/epoch-000003.safetensors"
    truncate(path)
    with pytest.warns(UserWarning), pytest.raises(CheckpointError, match=f"all of them need .* and {path} "):
        store(tmp_path).load(learner(0), segment(0))


@pytest.mark.parametrize("gone", ["replay/epoch-000003.safetensors", "replay", "."])
def test_what_is_removed_under_a_running_process_is_noticed_at_the_next_save(tmp_path, gone):
    checkpoints = tmp_path / "checkpoints"
    current = saved(checkpoints, 4)
    path = checkpoints / gone
    path.unlink() if path.is_file() else shutil.rmtree(path)
    with pytest.raises(CheckpointError, match=r"replay/epoch-00000\d.safetensors was removed while .* put it back"):
        current.save(5, learner(5), {}, segment(5))


def test_without_a_replay_removed_checkpoints_cost_nothing(tmp_path):
    current = CheckpointStore(tmp_path / "checkpoints", IDENTITY)
    current.save(1, learner(1), {})
    shutil.rmtree(tmp_path / "checkpoints")
    current.save(2, learner(2), {})
    assert CheckpointStore(tmp_path / "checkpoints", IDENTITY).load(learner(0)).epoch == 2


@pytest.mark.parametrize("failing_call", range(7))
def test_a_full_disk_at_any_call_leaves_the_previous_checkpoint_and_no_debris(tmp_path, monkeypatch, failing_call):
    """Fails the n-th of the flushes and renames of a save: two files' fsync, two renames, two directories' fsync."""
    current = saved(tmp_path, 4)
    calls = 0

    def failing(call):
        def wrapped(*arguments):
            nonlocal calls
            calls += 1
            if calls == failing_call + 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return call(*arguments)

        return wrapped

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(os.fsync))
        patch.setattr(os, "replace", failing(os.replace))
        counters = {"steps": 50, "cost": 5 / 3}
        if failing_call < 6:
            with pytest.raises(
                CheckpointError,
                match=r"No space left on device; free some space; the checkpoint of epoch \d survives in",
            ):
                current.save(5, learner(5), counters, segment(5))
        else:
            current.save(5, learner(5), counters, segment(5))
            assert calls == 6
    assert not [name for name in names(tmp_path) if "unfinished" in name]
    found = store(tmp_path).load(learner(0), segment(0))
    assert_is_state_after(5 if failing_call >= 5 else 4, found)
    current.save(5, learner(5), counters, segment(5))  # space was made: the run goes on
    assert_is_state_after(5, store(tmp_path).load(learner(0), segment(0)))


def test_a_write_that_the_system_cuts_short(tmp_path):
    """A real one: the kernel refuses to let a file grow beyond the process's limit, midway through it."""
    current = saved(tmp_path, 2)
    before = names(tmp_path)
    big = jnp.zeros(100_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(CheckpointError, match=r"epoch-000003.*too large; the checkpoint of epoch 2 survives"):
            current.save(3, big, {}, segment(3))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == before
    assert_is_state_after(2, store(tmp_path).load(learner(0), segment(0)))


SAVE_FOREVER = """
import sys
sys.path.insert(0, {tests!r})
from test_checkpoint import *
directory = Path(sys.argv[1])
current = store(directory)
found = current.load(learner(0), segment(0))
epoch = found.epoch if found else 0
print("ready", flush=True)
while True:
    epoch += 1
    current.save(epoch, learner(epoch), {{"steps": 10 * epoch, "cost": epoch / 3}}, segment(epoch))
"""


def test_kill_9_at_any_instant_leaves_a_whole_newest_checkpoint(tmp_path):
    script = SAVE_FOREVER.format(tests=str(Path(__file__).parent))
    instants = random.Random(0)
    reached = 0
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.05 + 0.2 * instants.random())
        process.send_signal(signal.SIGKILL)
        process.wait()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a kill may lose the save under way but damages nothing
            found = store(tmp_path).load(learner(0), segment(0))
        assert found is not None and found.epoch > reached
        assert_is_state_after(found.epoch, found)
        reached = found.epoch
