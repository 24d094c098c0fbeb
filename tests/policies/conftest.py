"""Each policy is made once for all tests that only read it."""

import functools

import pytest
from policies.made_policies import make_policy


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    return functools.cache(lambda name, discrete=False: make_policy(tmp_path_factory.mktemp("made"), name, discrete))
