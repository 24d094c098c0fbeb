"""The process that trains one run: `python -m cvpo.experiments.backends.worker RUN_DIRECTORY`, which holds a spec.json.

It ends with the process that started it: its standard input closes then, even if that one was killed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from pathlib import Path

from cvpo.experiments.spec import RunSpec, run_spec
from cvpo.runs.atomic import write_text
from cvpo.runs.directory import ERROR


def main() -> None:
    directory = Path(sys.argv[1])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        run_spec(RunSpec.read(directory), directory)
    except Exception:
        write_text(directory / ERROR, traceback.format_exc())
        sys.exit(1)


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
