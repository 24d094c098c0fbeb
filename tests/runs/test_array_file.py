"""Files of arrays: the same bytes for the same content, and nothing is read that was not written."""

import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from cvpo.runs.array_file import ArrayFileError, DamagedFileError, Limits, encode, read_arrays, write_arrays

ARRAYS = {"actor/weight": np.arange(6.0, dtype=np.float32).reshape(2, 3), "count": np.array(3)}
INFO = {"epoch": 3, "limits": [1.5, float("inf")]}


def test_what_is_written_comes_back(tmp_path):
    path = tmp_path / "policy" / "policy.safetensors"
    write_arrays(path, ARRAYS, INFO)
    arrays, info = read_arrays(path, finite=True)
    assert info == INFO | {"format": 2}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)


def test_the_same_content_is_the_same_bytes_in_every_process():
    """safetensors writes several words of metadata in an order that changes from process to process."""
    script = (
        "import numpy, hashlib; from cvpo.runs.array_file import encode; "
        "print(hashlib.sha256(encode({'b': numpy.ones(3), 'a': numpy.zeros(2)}, {'x': 1, 'y': [2]})[0]).hexdigest())"
    )
    command = [sys.executable, "-c", script]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    assert len({process.communicate()[0] for process in running}) == 1


def test_reading_and_writing_need_no_jax():
    check = "import sys; import cvpo.runs.array_file; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


@settings(deadline=None, max_examples=60)
@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_no_flipped_bit_is_read(tmp_path_factory, position, bit):
    path = tmp_path_factory.mktemp("flip") / "file.safetensors"
    content = bytearray(encode(ARRAYS, INFO)[0])
    content[position % len(content)] ^= 1 << bit
    path.write_bytes(content)
    try:
        arrays, info = read_arrays(path)
    except DamagedFileError as error:
        assert str(path) in str(error)
    else:  # a bit that no reader looks at
        assert info == INFO | {"format": 2} and all((arrays[name] == ARRAYS[name]).all() for name in ARRAYS)


def header(**info):
    """A file whose checksum is right and whose content is not."""
    return encode(ARRAYS, info)[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cannot be read"),
        (b"\xff" * 100, "cannot be read"),
        (save(ARRAYS), "not written by this version"),
        (save(ARRAYS, {"cvpo": "[" * 100_000}), "nested too deeply"),
        (save(ARRAYS, {"cvpo": "{}"}), "lacks 'sha256'"),
        (save(ARRAYS, {"cvpo": json.dumps({"sha256": "", "info": "{}"})}), "does not match its checksum"),
        (header(format="two"), "'format' in .* must be a whole number, got text, 'two'"),
        (header(format=1), "has format 1; this version of cvpo reads format 2"),
    ],
)
def test_a_strangers_file_is_one_clear_line(tmp_path, content, words):
    path = tmp_path / "file.safetensors"
    path.write_bytes(content)
    with pytest.raises(ArrayFileError, match=words) as error:
        read_arrays(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(DamagedFileError, match="is not a regular file"):
            read_arrays(tmp_path / name)
    with pytest.raises(DamagedFileError, match="absent is missing"):
        read_arrays(tmp_path / "absent")


def test_more_than_the_reader_wants_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "file.safetensors"
    write_arrays(path, {f"layer_{i}": np.zeros(1) for i in range(3000)}, {})
    with pytest.raises(ArrayFileError, match="has 3,000 arrays; at most 1,000 are read"):
        read_arrays(path, Limits(arrays=1000, bytes=10**9))
    with pytest.raises(ArrayFileError, match=r"bytes; at most 1,000 are read"):
        read_arrays(path, Limits(arrays=10**6, bytes=1000))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused_where_they_cannot_be(tmp_path, bad):
    path = tmp_path / "file.safetensors"
    write_arrays(path, {"actor/weight": np.array([1.0, bad])}, {})
    assert len(read_arrays(path)[0]) == 1
    with pytest.raises(ArrayFileError, match=f"{path} is of no use: actor/weight has numbers that are NaN or infinite"):
        read_arrays(path, finite=True)


def test_what_cannot_be_written_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "policy.safetensors"
    write_arrays(path, {"count": np.array(3)}, {})

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ArrayFileError, match=f"could not write {path}: No space left on device; free some space"):
            write_arrays(path, {"count": np.array(4)}, {})
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    assert read_arrays(path)[0]["count"] == 3


def test_nothing_is_written_through_a_link(tmp_path):
    private = tmp_path / "private"
    private.write_text("mine")
    (tmp_path / "policy.safetensors.unfinished").symlink_to(private)
    with pytest.raises(ArrayFileError, match="it is a link; remove it"):
        write_arrays(tmp_path / "policy.safetensors", ARRAYS, {})
    assert private.read_text() == "mine"
