"""Sweeps on a real Ray, started here."""

import pytest
from killing import kill_when, parent_of, saved_epoch, workers_in
from tiny_runs import tiny, untimed

from cvpo.experiments import run_spec, sweep
from cvpo.experiments.cluster import TOKEN, RayCluster

pytest.importorskip("ray", reason="Ray is not installed")


class FarCluster(RayCluster):
    """One whose machines do not see this disk."""

    def _submit(self, status, files=None):
        (self._output / TOKEN).unlink(missing_ok=True)
        super()._submit(status, files)


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [RayCluster, FarCluster])
def test_a_killed_ray_worker_is_replaced_and_a_failing_run_stops_no_other(tmp_path, monkeypatch, cluster):
    monkeypatch.setattr("cvpo.experiments.sweep.RayCluster", cluster)
    scratch, output = tmp_path / "scratch", tmp_path / "output"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setenv("RAY_worker_niceness", "0")  # the default leaves nothing for them on a busy machine
    monkeypatch.setenv("RAY_TMPDIR", "/tmp")  # its sockets need short names
    killed, broken, other = specs = [tiny("SlowBandit", epochs=40), tiny("BrokenBandit"), tiny(seed=1)]
    directory = output / killed.path
    place = directory if cluster is RayCluster else scratch

    def ray_workers():
        """Those above the processes that train this run."""
        return {parent_of(worker) for worker in workers_in(place)}

    with kill_when(lambda: saved_epoch(directory) >= 1, ray_workers) as victims:
        ended = sweep(specs, output, workers=1, ray="local")
    assert len(victims) == 1
    assert [status.state for status in ended] == ["done", "failed", "done"]
    assert [status.deaths for status in ended] == [1, 0, 0]
    assert ended[1].short_error == "ValueError: this machine is out of order"
    assert "in step" in (output / broken.path / "error.txt").read_text()
    run_spec(killed, tmp_path / "undisturbed")
    assert untimed(directory) == untimed(tmp_path / "undisturbed")
    assert saved_epoch(directory) == 39 and (directory / "policy").is_dir()  # it can be resumed and used from here
    assert saved_epoch(output / other.path) == 1


def test_ray_client_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(ValueError, match="ray job submit"):
        sweep([tiny()], tmp_path, ray="ray://somewhere:10001")
