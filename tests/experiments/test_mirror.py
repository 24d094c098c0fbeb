"""Copies of run directories."""

import os

from cvpo.experiments.backends.mirror import apply_changes, collect_changes


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
