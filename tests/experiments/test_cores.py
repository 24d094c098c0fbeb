"""Cores of their own."""

import os
import subprocess
import sys

import pytest

from cvpo.errors import UserError
from cvpo.experiments.backends.cores import CoreClaim
from cvpo.machine import usable_cores


def test_claims_do_not_overlap_and_free_what_they_held(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    everything = os.sched_getaffinity(0)
    claims = [CoreClaim(1) for _ in range(usable_cores())]
    assert sorted(core for claim in claims for core in claim.cores) == sorted(everything)
    assert CoreClaim(1).cores == everything  # none is left: no promise, no pin
    freed = claims[0].cores
    claims[0].release()
    again = CoreClaim(1)
    assert again.cores == freed
    with again.inherited():
        script = "import os; print(*os.sched_getaffinity(0))"
        seen = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert {int(core) for core in seen.split()} == freed
    assert os.sched_getaffinity(0) == everything
    for claim in [*claims, again]:
        claim.release()


@pytest.mark.parametrize("place", ["link", "file"])
def test_the_locks_are_in_a_directory_of_ones_own(tmp_path, monkeypatch, place):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / f"cvpo-cores-{os.getuid()}"
    path.symlink_to(tmp_path / "elsewhere") if place == "link" else path.touch()
    with pytest.raises(UserError, match=f"{path} is not a directory of yours; remove it, or set TMPDIR"):
        CoreClaim(1)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    path.unlink()
    CoreClaim(1).release()
    assert path.stat().st_mode & 0o777 == 0o700
