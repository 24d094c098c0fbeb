"""`cvpo tasks` and `cvpo algorithms`: what there is."""

from __future__ import annotations


def tasks() -> None:
    """List the built-in tasks with their sizes and cost limits."""
    from cvpo.tasks import listing

    print(listing())


def algorithms() -> None:
    """List the algorithms and their presets."""
    from cvpo.algorithms.registry import ALGORITHMS
    from cvpo.presets import PRESETS

    for name, entry in ALGORITHMS.items():
        print(f"{name:<10} {entry.summary} (presets: {', '.join(PRESETS[name])})")
