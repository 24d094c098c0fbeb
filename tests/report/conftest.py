from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, FLAGS


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """An empty directory for runs."""
    directory = tmp_path / "runs"
    directory.mkdir()
    return directory


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()
