"""What this process may use of the machine."""

from __future__ import annotations

import os

CAN_PIN = hasattr(os, "sched_setaffinity")  # to cores of its own; not on macOS


def usable_cores() -> int:
    """Cores that this process may use, which may be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if CAN_PIN else os.cpu_count() or 1
