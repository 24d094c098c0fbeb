"""The live page beside a training: in a process of its own, and in the browser if there is one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path


def open_in_browser(address: str) -> None:
    """Only where there is a screen: without one, a browser for terminals would take this terminal."""
    if sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(address)


@contextlib.contextmanager
def shown_live(run: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Serve the page of a run while the body trains it. The page costs the training no time: it is another process."""
    program = "from cvpo.report.opening import serve_until_left; serve_until_left()"
    # -P: nothing is imported from the current directory, which may be somebody else's. A session of its own: a Ctrl-C
    # is for the training, which may go on to the end of its epoch. It ends when its input does, and so with this
    # process, however that ends.
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", program, str(run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert child.stdin is not None and child.stdout is not None
    try:
        if address := child.stdout.readline().strip():
            say(f"watch {address}")
            open_in_browser(address)
        else:
            say("the live page could not be served; training goes on without it")
        yield
    finally:
        child.stdin.close()
        child.stdout.close()
        child.wait()


def serve_until_left() -> None:
    """What the process of the live page does: serve the directory that its argument names, until its input ends."""
    from cvpo.report.live import serve

    def wait() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
    serve([sys.argv[1]], announce=lambda address: print(address, flush=True))
