"""Sweeps on a real Ray, started here."""

import importlib
import os
import subprocess
import sys

import pytest
from killing import gone, kill_when, parent_of, saved_epoch, started_by, wait_until, workers_in
from saved_runs import untimed
from tiny_runs import WORKER_PATH, tiny

from cvpo.experiments import run_spec, sweep
from cvpo.experiments.backends.ray_cluster import TOKEN, RayCluster

ray = pytest.importorskip("ray", reason="Ray is not installed")
EPOCHS = 20


class FarCluster(RayCluster):
    """One whose machines do not see this disk."""

    def _submit(self, status, files=None):
        (self._output / TOKEN).unlink(missing_ok=True)
        super()._submit(status, files)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """The temporary directory of the workers of a Ray that runs for all tests here, with room for one run at once."""
    directory = tmp_path_factory.mktemp("scratch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", WORKER_PATH)
        patch.setenv("TMPDIR", str(directory))
        patch.setenv("RAY_TMPDIR", "/tmp")  # its sockets need short names
        patch.setenv("RAY_worker_niceness", "0")  # the default leaves nothing for them on a busy machine
        ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
        yield directory
        ray.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [RayCluster, FarCluster])
def test_a_killed_ray_worker_is_replaced_and_a_failing_run_stops_no_other(tmp_path, monkeypatch, scratch, cluster):
    monkeypatch.setattr(importlib.import_module("cvpo.experiments.sweep"), "RayCluster", cluster)
    killed, broken, other = specs = [tiny("SlowBandit", epochs=EPOCHS), tiny("BrokenBandit"), tiny(seed=1)]
    directory = tmp_path / killed.path

    def ray_workers():
        """Those above the processes that train this run; process 1 has adopted what one of them left behind."""
        return {parent_of(worker) for worker in workers_in(directory if cluster is RayCluster else scratch)} - {1}

    with kill_when(lambda: saved_epoch(directory) >= 1, ray_workers) as victims:
        ended = sweep(specs, tmp_path, ray="local")
    assert len(victims) == 1 and os.getpid() not in victims
    assert [status.state for status in ended] == ["done", "failed", "done"]
    assert [status.deaths for status in ended] == [1, 0, 0]
    assert ended[1].short_error.startswith("ValueError: this machine is out of order This was in BrokenBandit")
    assert "in step" in (tmp_path / broken.path / "error.txt").read_text()
    run_spec(killed, tmp_path / "undisturbed")
    assert untimed(directory) == untimed(tmp_path / "undisturbed")
    # it can be resumed and used from here
    assert saved_epoch(directory) == EPOCHS - 1 and (directory / "policy").is_dir()
    assert saved_epoch(tmp_path / other.path) == 1


FAR_SWEEP = """
import importlib, sys
from test_cluster import FarCluster
from tiny_runs import tiny
module = importlib.import_module("cvpo.experiments.sweep")
module.RayCluster = FarCluster
module.sweep([tiny("SlowBandit", epochs=1000)], sys.argv[1], workers=1, ray="local")
"""


@pytest.mark.slow
def test_nothing_is_left_of_a_sweep_that_was_killed(tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    places = {"TMPDIR": str(scratch), "RAY_TMPDIR": "/tmp", "RAY_worker_niceness": "0"}
    command = [sys.executable, "-c", FAR_SWEEP, str(tmp_path / "runs")]
    with subprocess.Popen(command, env=os.environ | places, stdout=subprocess.DEVNULL) as driver:
        wait_until(lambda: driver.poll() is not None or list(scratch.glob("cvpo-run-*/checkpoints/epoch-*")))
        left = started_by(driver.pid)
        assert workers_in(scratch)[0] in left
        driver.kill()
    wait_until(lambda: all(map(gone, left)) and not list(scratch.glob("cvpo-run-*")))


def test_ray_client_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(ValueError, match="ray job submit"):
        sweep([tiny()], tmp_path, ray="ray://somewhere:10001")
