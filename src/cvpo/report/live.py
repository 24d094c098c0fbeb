"""`cvpo report --watch`: the page, served to this machine alone, and up to date while runs go on.

The server answers three kinds of requests: for the page, for its data, and for a film that the data names. It writes
nothing, and it serves no other file.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cvpo.errors import UserError
from cvpo.report.data import page_data
from cvpo.report.films import Film, films_of
from cvpo.report.load import RunReader, find_runs
from cvpo.report.page import make_page, pack
from cvpo.report.study import Study

ADDRESS = "127.0.0.1"
_FEWEST_SECONDS = 1.0  # between two looks at the disk, however many pages ask


class Watched:
    """What the page shows of the runs below some directories, read again when they have changed."""

    def __init__(self, paths: Sequence[str | Path]):
        self._paths = paths
        self._reader = RunReader()
        self._lock = threading.Lock()
        self._looked = -_FEWEST_SECONDS
        self._state: Any = None
        self._films: dict[str, Film] = {}
        self._packed, self._version = b"", ""

    def data(self) -> tuple[bytes, str]:
        """The packed data, and a name for this version of it."""
        with self._lock:
            if time.monotonic() - self._looked >= _FEWEST_SECONDS:
                self._look()
                self._looked = time.monotonic()
            return self._packed, self._version

    def film(self, name: str) -> Film | None:
        with self._lock:
            return self._films.get(name)

    def _look(self) -> None:
        found = find_runs(self._paths)
        state = [(path, self._reader.state(path), films_of(path)) for path in found]
        if state == self._state:
            return
        runs, unread = self._reader.load(found)
        films: dict[str, Film] = {}

        def source(film: Film) -> str:
            name = hashlib.sha256(os.fsencode(film.path)).hexdigest()[:32]
            films[name] = film
            return f"film/{name}"

        self._packed = pack(page_data(Study.of(runs), unread, source))
        self._version = f'"{hashlib.sha256(self._packed).hexdigest()[:32]}"'
        self._films, self._state = films, state


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    watched: Watched

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):  # a page that was closed
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "cvpo", ""
    timeout = 30  # seconds that a silent client may keep a thread

    def do_GET(self) -> None:
        # Another site's page could reach this server by a name of its own that leads here, but not by its address.
        port = self.server.server_address[1]
        if self.headers.get("Host") not in (f"{ADDRESS}:{port}", f"localhost:{port}"):
            self._answer(HTTPStatus.FORBIDDEN, b"", "text/plain")
        elif self.path == "/":
            self._answer(HTTPStatus.OK, make_page(None).encode(), "text/html; charset=utf-8")
        elif self.path == "/data":
            self._answer_data()
        elif self.path.startswith("/film/") and (film := self.server.watched.film(self.path[len("/film/") :])):
            self._answer_film(film)
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"", "text/plain")

    do_HEAD = do_GET

    def _answer_data(self) -> None:
        try:
            packed, version = self.server.watched.data()
        except (UserError, OSError):  # the directory is gone
            self._answer(HTTPStatus.GONE, b"", "text/plain")
            return
        if self.headers.get("If-None-Match") == version:
            self._answer(HTTPStatus.NOT_MODIFIED, b"", "application/json", {"ETag": version})
        else:
            headers = {"ETag": version, "Content-Encoding": "gzip"}
            self._answer(HTTPStatus.OK, packed, "application/json", headers)

    def _answer_film(self, film: Film) -> None:
        if film in films_of(film.path.parent.parent):  # still a file of the run, and no link to something else
            self._answer(HTTPStatus.OK, film.path.read_bytes(), film.media_type)
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"", "text/plain")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing: beside it a run may be drawing its progress."""


def serve(paths: Sequence[str | Path], port: int = 0, announce: Callable[[str], None] = print) -> None:
    """Serve the page of the runs below `paths` until the process is stopped; port 0: one that is free."""
    find_runs(paths)  # a path that is no directory is said at once
    if not 0 <= port <= 65535:
        raise UserError(f"port must be from 0 (a free one) to 65535, got {port}")
    try:
        server = _Server((ADDRESS, port), _Handler)
    except OSError as error:
        raise UserError(
            f"port {port} cannot be used ({error.strerror}); choose another, or none for a free one"
        ) from None
    server.watched = Watched(paths)
    with server:
        announce(f"http://{ADDRESS}:{server.server_address[1]}/")
        server.serve_forever()
