"""One run for all tests that only read it."""

import pytest
from bandit_runs import bandit


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A run of four epochs that nothing disturbed."""
    return bandit(tmp_path_factory.mktemp("whole"))
