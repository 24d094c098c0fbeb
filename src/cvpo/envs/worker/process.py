"""The process around one copy: it answers the messages of the training process."""

from __future__ import annotations

import base64
import ctypes
import faulthandler
import json
import mmap
import os
import pickle
import signal
import struct
import sys
import threading
import traceback
from typing import Any

import numpy as np

from .block import Block, block_size
from .copy import Copy
from .make import make
from .problem import Problem

# One byte starts each message. What happens at every step needs no more than this byte.
STEP, MESSAGE, DONE, FAILED = b"s", b"m", b".", b"!"


class Channel:
    """Messages over two pipes: one byte, and for those that carry something its length and JSON."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading, self.writing = reading, writing

    def send(self, kind: bytes, message: dict[str, Any] | None = None) -> None:
        if message is None:
            os.write(self.writing, kind)
            return
        body = json.dumps(message).encode()
        view = memoryview(kind + struct.pack("<Q", len(body)) + body)
        while view:
            view = view[os.write(self.writing, view) :]

    def receive(self) -> tuple[bytes, dict[str, Any]]:
        """The next message; EOFError if the other side is gone."""
        kind = os.read(self.reading, 1)
        if kind in (STEP, DONE):
            return kind, {}
        if not kind:
            raise EOFError
        (size,) = struct.unpack("<Q", self._read(8))
        return kind, json.loads(self._read(size))

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            part = os.read(self.reading, size)
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


class Worker:
    """Each method answers one kind of message."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self.copy: Copy

    def make(
        self, source: dict[str, Any], options: dict[str, Any], render: bool, path: list[str], try_out: bool
    ) -> dict[str, Any]:
        """source: "env" with "kwargs", or a pickled callable; path: where modules are looked for, besides its own."""
        sys.path += [folder for folder in (*path, os.getcwd()) if folder not in sys.path]
        if "pickle" in source:
            env = pickle.loads(base64.b64decode(source["pickle"]))()
        else:
            env = make(source["env"], source["kwargs"], render)
        self.copy = Copy(env, options)
        if try_out:
            self.copy.try_out()
        return self.copy.describe()

    def share(self, layout: dict[str, Any], index: int) -> None:
        self.copy.attach(Block(layout, mmap.mmap(self._memory, block_size(layout))), index)

    def reset(self, seed: int | None) -> None:
        self.copy.reset(seed)

    def frame(self) -> dict[str, Any]:
        frame = np.ascontiguousarray(self.copy.frame())
        return {"shape": frame.shape, "bytes": base64.b64encode(frame.tobytes()).decode()}

    def close(self) -> None:
        if hasattr(self, "copy"):
            self.copy.close()


def serve(channel: Channel, worker: Worker) -> None:
    """Answer messages until the other side closes its pipe; then close the environment."""
    while True:
        try:
            kind, message = channel.receive()
        except EOFError:
            worker.close()
            return
        try:
            if kind == STEP:
                worker.copy.step()
                channel.send(DONE)
            else:
                answer = getattr(worker, message.pop("do"))(**message)
                channel.send(MESSAGE, answer or {})
        except BaseException as error:  # also SystemExit, which must not end the process without a word
            channel.send(FAILED, failure(error))


def failure(error: BaseException) -> dict[str, Any]:
    """An exception in JSON's types."""
    if isinstance(error, Problem):
        return {"problem": str(error)}
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return {"error": f"{type(error).__name__}: {error}", "traceback": "".join(lines)}


def die_with(parent: int, lifeline: int) -> None:
    """End this process as soon as `parent` is gone, also in the middle of a step that never returns.

    On Linux the kernel sees to it. Elsewhere a thread waits for the end of a pipe that the parent holds open.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it was gone before
            os._exit(1)

    def wait() -> None:
        os.read(lifeline, 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def main(parent: str, commands: str, replies: str, memory: str, lifeline: str) -> None:
    """The arguments are the number of the parent process and of the files that it opened for this one."""
    sys.path = [folder for folder in sys.path if folder]  # "" hides installed packages behind files that lie around
    die_with(int(parent), int(lifeline))
    faulthandler.enable()
    serve(Channel(int(commands), int(replies)), Worker(int(memory)))
