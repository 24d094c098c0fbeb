"""How the log names what each constraint has of its own: the one place that knows."""

from __future__ import annotations

from typing import Any


def cost_names(name: str, constraints: int) -> list[str]:
    """`name` itself if there is one constraint; `name_0`, `name_1`, ... if there are several."""
    return [name] if constraints == 1 else [f"{name}_{i}" for i in range(constraints)]


def per_cost(name: str, values: Any) -> dict[str, Any]:
    """The values [m] of m constraints by their names in the log; of NumPy's arrays or JAX's."""
    return {key: values[i] for i, key in enumerate(cost_names(name, len(values)))}
