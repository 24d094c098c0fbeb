"""A real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import io
import shutil
from typing import Any

import pytest
from PIL import Image

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: apt-get install chromium, and the page is tested in it"
)
# As root in a container there is no sandbox; the rest keeps it from looking for updates and the like.
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def open_page(browser: Any, address: str, **options: Any) -> Any:
    """A page. `said` collects its messages and errors, `asked_for` the addresses it loads."""
    page = browser.new_page(**({"viewport": {"width": 1280, "height": 1000}} | options))
    page.set_default_timeout(60_000)  # a busy machine is no error
    page.said, page.asked_for = [], []
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("console", lambda message: page.said.append(f"{message.type}: {message.text} ({message.location})"))
    page.on("request", lambda request: page.asked_for.append(request.url))
    page.goto(address)
    return page


def picture(element: Any) -> Image.Image:
    """What is seen of an element."""
    return Image.open(io.BytesIO(element.screenshot())).convert("RGB")
