"""The process that trains one run: `python -m cvpo.experiments.backends.worker RUN_DIRECTORY`, which holds a spec.json.

It ends with the process that started it: its standard input closes then, even if that one was killed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
from pathlib import Path

from cvpo.experiments.backends.guard import start_guard
from cvpo.experiments.backends.worker_process import RAISED
from cvpo.experiments.spec import RunSpec, run_spec
from cvpo.runs.atomic import write_text
from cvpo.runs.directory import ERROR


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--temporary", action="store_true", help="remove the directory if the sweep is gone")
    options = parser.parse_args()
    directory: Path = options.directory
    start_guard(remove=directory if options.temporary else None)
    try:
        spec = RunSpec.read(directory)
        if ":" in spec.env:  # a module that the user of the sweep has named is found where the sweep was called
            sys.path.append(os.getcwd())
        run_spec(spec, directory)
    except Exception:
        error = traceback.format_exc()
        with contextlib.suppress(OSError):  # a full disk may be the error
            write_text(directory / ERROR, error)
        with contextlib.suppress(OSError):
            print(error, file=sys.stderr, flush=True)
        os._exit(RAISED)  # Python would exit with another code if it cannot empty its buffers


if __name__ == "__main__":
    main()
