"""Worker processes find the toy environments by the path that they inherit."""

import os

import pytest
from tiny_runs import WORKER_PATH


@pytest.fixture(autouse=True)
def toys_for_workers(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", WORKER_PATH, prepend=os.pathsep)
