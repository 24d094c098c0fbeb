"""What `import cvpo` offers."""

import inspect
import subprocess
import sys

import pytest

import cvpo
from cvpo.errors import BadValue, NotFound, Unavailable


def test_dir_shows_the_public_names_and_all_of_them_exist():
    assert set(dir(cvpo)) == {*cvpo.__all__, "__version__"}
    for name in dir(cvpo):
        assert getattr(cvpo, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = cvpo.trian


def test_importing_the_package_does_not_load_jax():
    subprocess.run([sys.executable, "-c", "import sys, cvpo; assert 'jax' not in sys.modules"], check=True)


def test_errors_that_a_user_can_mend_have_one_base_and_are_what_they_were():
    for kind, usual in ((BadValue, ValueError), (NotFound, FileNotFoundError), (Unavailable, RuntimeError)):
        assert issubclass(kind, cvpo.UserError) and issubclass(kind, usual)
        assert str(kind("the message")) == "the message"


def test_evaluate_has_one_default_number_of_episodes():
    from cvpo.cli.evaluate import evaluate as command

    defaults = {inspect.signature(each).parameters["episodes"].default for each in (cvpo.evaluate, command)}
    assert len(defaults) == 1
