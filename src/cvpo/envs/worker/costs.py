"""Where an environment says what a step cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from .problem import Problem, short


def read_costs(name: str, info: dict[str, Any], options: dict[str, Any]) -> np.ndarray:
    """The costs [m] in info["cost"], in info["costs"] or under options["cost_keys"]; zeros if none are required."""
    keys, count = options["cost_keys"], options["costs"]
    found: Any
    if keys:
        missing = [key for key in keys if key not in info]
        if missing:
            raise Problem(f"{name} gives no info[{missing[0]!r}]; info has {sorted(map(str, info))}")
        found = [info[key] for key in keys]
    elif "costs" in info and (count > 1 or "cost" not in info):
        found = list(info["costs"].values()) if isinstance(info["costs"], dict) else info["costs"]
    elif "cost" in info:
        found = info["cost"]
    elif not options["cost_required"]:
        return np.zeros(count, np.float32)
    else:
        raise Problem(
            f"{name} gives no cost: info has keys {sorted(map(str, info))}. Put a number in info['cost'], one for each "
            "constraint in info['costs'], or name the keys with cost_keys"
        )
    try:
        costs = np.atleast_1d(np.asarray(found, np.float32))
    except (TypeError, ValueError):
        raise Problem(
            f"{name} must give a number for each cost, got {short(found)}; cost_keys names keys of info"
        ) from None
    if costs.shape != (count,):
        raise Problem(
            f"{name} gives {costs.size} costs but there are {count} limits; pass cost_limit with one number for each"
        )
    return costs


def cost_parts(info: dict[str, Any]) -> dict[str, float]:
    """What a cost consists of: numbers in info whose names begin with cost_, as info["cost_hazards"]."""
    return {
        name: float(value)
        for name, value in info.items()
        if is_part(name) and isinstance(value, (int, float, np.number, np.bool_))
    }


def is_part(name: Any) -> bool:
    return isinstance(name, str) and name.startswith("cost_")
