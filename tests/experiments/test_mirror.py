"""Copies of run directories."""

import os
import types

from cvpo.experiments.backends import ray_cluster
from cvpo.experiments.backends.mirror import Changes, apply_changes, collect_changes
from cvpo.experiments.backends.worker_process import Outcome


def contents(directory):
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def test_a_copy_follows_what_is_written_changed_and_deleted(tmp_path):
    original, copy = tmp_path / "original", tmp_path / "copy"
    (original / "checkpoints" / "replay").mkdir(parents=True)
    (original / "metrics.jsonl").write_text("a\n")
    (original / "checkpoints" / "epoch-000000.safetensors").write_bytes(b"0")
    (original / "checkpoints" / "replay" / "epoch-000000.safetensors").write_bytes(b"r0")
    (original / ".lock").touch()
    (original / "checkpoints" / "epoch-000001.safetensors.unfinished").touch()
    changes, known = collect_changes(original, {})
    # a copy that is cut short at any place has no checkpoint without its segments and metrics
    assert list(changes.files)[-1] == "checkpoints/epoch-000000.safetensors"
    apply_changes(copy, changes)
    assert set(contents(copy)) == {
        "metrics.jsonl",
        "checkpoints/epoch-000000.safetensors",
        "checkpoints/replay/epoch-000000.safetensors",
    }

    (original / "metrics.jsonl").write_text("a\nb\n")
    (original / "checkpoints" / "epoch-000000.safetensors").unlink()
    (original / "checkpoints" / "epoch-000001.safetensors").write_bytes(b"1")
    os.utime(original / "metrics.jsonl", ns=(1, 1))
    changes, _ = collect_changes(original, known)
    assert set(changes.files) == {"metrics.jsonl", "checkpoints/epoch-000001.safetensors"}
    apply_changes(copy, changes)
    assert contents(copy) == {
        "metrics.jsonl": b"a\nb\n",
        "checkpoints/epoch-000001.safetensors": b"1",
        "checkpoints/replay/epoch-000000.safetensors": b"r0",
    }


class InstantWorker:
    """One that has written a run and ended before anybody looks."""

    def __init__(self, directory, cores, temporary):
        (directory / "checkpoints").mkdir()
        (directory / "checkpoints" / "epoch-000000.safetensors").write_bytes(b"0")

    def poll(self):
        return Outcome("done")

    def stop(self):
        pass


def test_a_machine_of_the_cluster_sends_what_its_worker_wrote_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_cluster, "WorkerProcess", InstantWorker)
    monkeypatch.setattr(ray_cluster, "import_ray", lambda: types.SimpleNamespace(get=lambda reference: reference))
    given = Changes({"spec.json": b"{}"}, ["spec.json"])
    task = ray_cluster.train_remotely(tmp_path / "run", tmp_path / "no-token", "token", 1, [given])
    running, done = task
    assert (running.kind, done.kind) == ("running", "done")
    assert set(done.changes.files) == {"checkpoints/epoch-000000.safetensors"}
