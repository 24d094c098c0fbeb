"""The page: one HTML file with its program, its style and, unless it asks a server for it, its data."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from importlib import resources
from string import Template
from typing import Any

# In the order in which they are run: each uses what stands before it.
_SCRIPTS = (
    "text", "look", "curves", "chart", "curve_chart", "plane", "verdict", "explorer", "table", "runs", "main",
)  # fmt: skip


def make_page(data: bytes | None) -> str:
    """The page that shows the packed `data`; None: it asks the server that it comes from, again and again.

    Nothing is loaded from elsewhere, and no script runs but the page's own: its policy names it by its hash.
    """
    program = "\n".join([_asset("uplot/uPlot.iife.min.js"), *(_asset(f"{name}.js") for name in _SCRIPTS)])
    return Template(_asset("page.html")).substitute(
        style=_asset("uplot/uPlot.min.css") + "\n" + _asset("page.css"),
        program=program,
        program_hash=base64.b64encode(hashlib.sha256(f"\n{program}\n".encode()).digest()).decode(),
        licence=_asset("uplot/LICENSE"),
        data="" if data is None else base64.b64encode(data).decode(),
    )


def pack(data: dict[str, Any]) -> bytes:
    """JSON, compressed: what logs hold shrinks to a third."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return gzip.compress(text.encode(), 6, mtime=0)


def _asset(name: str) -> str:
    return resources.files("cvpo.report").joinpath("assets", name).read_text(encoding="utf-8")
