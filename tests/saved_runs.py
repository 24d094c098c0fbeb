"""What a run leaves, for tests of whether two runs are the same one."""

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from cvpo.runs.directory import read_metrics


def untimed(directory: Path) -> list[dict[str, Any]]:
    """The metrics of a run without what a clock says."""
    return [
        {key: value for key, value in line.items() if key != "wall_seconds" and not key.startswith("time/")}
        for line in read_metrics(directory)
    ]


def arrays(directory: Path) -> dict[str, np.ndarray]:
    """What a run has learned: its newest checkpoint and its policy."""
    newest = max((directory / "checkpoints").glob("epoch-*.safetensors"))
    return load_file(newest) | load_file(directory / "policy" / "policy.safetensors")


def assert_same_arrays(first: Path, second: Path) -> None:
    ours, theirs = arrays(first), arrays(second)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
