"""A short turn of benchmarks/torture.py, so that the script stays true."""

import random
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import torture


def test_no_damaged_checkpoint_is_loaded_as_what_it_never_was(tmp_path):
    assert torture.damages(60, random.Random(1), tmp_path) == []


@pytest.mark.slow
def test_killed_runs_end_like_those_that_were_not(tmp_path):
    assert torture.kills(3, 60, random.Random(1), tmp_path) == []


@pytest.mark.slow
def test_what_misbehaves_is_told_in_one_line_and_what_was_finished_is_kept(tmp_path):
    assert torture.environments(8, tmp_path) == []
