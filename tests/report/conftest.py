from pathlib import Path

import pytest


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """An empty directory for runs."""
    directory = tmp_path / "runs"
    directory.mkdir()
    return directory
