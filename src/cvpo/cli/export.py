"""`cvpo export RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cvpo.cli.options import RunPath, WhichPolicy, optional


def export(
    run: RunPath,
    format: Literal["numpy", "c", "onnx"] = "numpy",
    output: Annotated[Path | None, optional("PATH", "in RUN/export")] = None,
    which: WhichPolicy = "newest",
) -> None:
    """Write a trained policy in a form that runs without cvpo. All but C is checked to act the same.

    Args:
        run: A run directory.
        format: A folder with one NumPy-only Python file, a C header, or an ONNX file (extra: onnx).
        output: The folder or file to write.
        which: The newest policy of the run, or its best one that was within the limit.
    """
    from cvpo.policies.export import export

    print(export(run, output, format, which))
