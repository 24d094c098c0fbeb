"""`cvpo tasks` and `cvpo algorithms`: what there is."""

from __future__ import annotations


def tasks() -> None:
    """List the built-in tasks with their sizes and cost limits."""
    from cvpo.tasks import TASKS

    print(f"{'task':<14}{'id':<22}{'obs':>5}{'act':>5}{'steps':>7}{'limit':>7}")
    for t in TASKS.values():
        sizes = f"{t.observation_size:>5}{t.action_size:>5}{t.episode_length:>7}{t.cost_limit:>7g}"
        print(f"{t.name:<14}{t.id:<22}{sizes}\n    {t.description}")


def algorithms() -> None:
    """List the algorithms and their presets."""
    from cvpo.algorithms.registry import ALGORITHMS
    from cvpo.presets import PRESETS

    for name, entry in ALGORITHMS.items():
        print(f"{name:<10} {entry.summary} (presets: {', '.join(PRESETS[name])})")
