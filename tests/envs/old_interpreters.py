"""Virtual environments with packages of former years, made on demand."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

# gym 0.21 has a setup.py that current build tools refuse, and asks for no NumPy below 2 though it needs one.
GYM_021 = (["setuptools<66", "wheel<0.40", "numpy<2"], ["--no-build-isolation", "gym==0.21.0"])
GYMNASIUM_028 = (["numpy<2", "gymnasium==0.28.1"],)


def oldest_python() -> str:
    """The oldest interpreter from Python 3.8 on that this machine has."""
    for minor in range(8, sys.version_info.minor + 1):
        found = [shutil.which(f"python3.{minor}"), *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")]
        for python in filter(None, found):
            try:
                subprocess.run([python, "-c", "import ensurepip, venv"], check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError):
                continue
            return str(python)
    return sys.executable


def make_interpreter(folder: Path, installs: tuple[list[str], ...]) -> str:
    """The Python of a virtual environment with these packages; skips the test where pip cannot get them."""
    python = folder / "bin" / "python"
    with FileLock(f"{folder}.lock"):
        if not (folder / "done").exists():
            subprocess.run([oldest_python(), "-m", "venv", "--clear", folder], check=True)
            # as the user's shell has it, not as this test's interpreter
            clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
            for packages in installs:
                command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
                result = subprocess.run(command, capture_output=True, text=True, env=clean)
                if result.returncode:
                    unreachable = "No matching distribution" in result.stderr or "connection" in result.stderr.lower()
                    assert unreachable, result.stderr
                    pytest.skip(f"pip cannot reach {' '.join(packages)}: {result.stderr.strip().splitlines()[-1]}")
            (folder / "done").touch()
    return str(python)
