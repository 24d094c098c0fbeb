"""What a run says in whole sentences: how to go on with it, how it ended, and what to do next."""

from __future__ import annotations

import datetime
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cvpo.algorithms.base import Spec
from cvpo.metric_names import cost_names
from cvpo.runs.trust import trust_flag


def resume_hint(path: Path, source: str | None, cluster: str | None = None) -> str:
    """A command to paste, or a call where no command can make the environment. cluster: what `envs_on_ray` says."""
    if source is None:
        return f"resume with: cvpo.train(..., run_dir={str(path)!r}, resume=True)"
    # Nobody is connected to a cluster that only a file names.
    on_ray = "" if cluster is None else f" --envs-on-ray {shlex.quote(cluster)}"
    return f"resume with: cvpo train --resume {shlex.quote(str(path))}{on_ray}{trust_flag(source)}"


def stopped(signal_name: str, epoch: int, saved: int, hint: str) -> str:
    """A run that a signal ended in `epoch`, with the epochs up to `saved` on the disk (-1: none)."""
    kept = f"epochs 0 to {saved} are saved" if saved >= 0 else "no epoch was finished, so nothing is saved yet"
    return f"stopped by {signal_name} in epoch {epoch}; {kept}; {hint}"


def summary(metrics: Mapping[str, Any], spec: Spec, path: Path, source: str | None) -> list[str]:
    """Lines for the end of a run: what the policy earns and costs, where the run is, and the next commands."""
    group, how = ("eval", "without noise") if "eval/reward" in metrics else ("train", "with noise")
    names = cost_names(f"{group}/constrained_cost", spec.num_costs)  # there if the limit is not on the mean
    if names[0] not in metrics:
        names = cost_names(f"{group}/cost", spec.num_costs)
    costs = ", ".join(_cost(metrics[name], limit) for name, limit in zip(names, spec.cost_limits, strict=True))
    duration = datetime.timedelta(seconds=round(metrics["wall_seconds"]))
    run, episodes = shlex.quote(str(path)), metrics[f"{group}/episodes"]
    lines = [
        f"done: {metrics['steps']:,} steps in {duration}",
        f"policy: reward {metrics[f'{group}/reward']:.2f}, cost {costs}; "
        f"mean of {episodes} episode{'' if episodes == 1 else 's'} {how}",
        f"run directory: {path}",
    ]
    if source is None:
        lines.append(f"next: cvpo.evaluate({str(path)!r}, env), or: cvpo report {run}")
    else:
        trust = trust_flag(source)
        lines += [f"next: cvpo evaluate {run}{trust}", f"      cvpo render {run}{trust}", f"      cvpo report {run}"]
    return lines


def _cost(cost: float, limit: float) -> str:
    if math.isinf(limit):
        return f"{cost:.2f}"
    return f"{cost:.2f} ({'within' if cost <= limit else 'above'} the limit of {limit:g})"


def flattened_images(layout: Mapping[str, Any]) -> str | None:
    """A warning for observations with the shape of images, of which the networks see a flat vector."""
    shapes = _image_shapes(layout)
    if not shapes:
        return None
    return (
        f"observations of shape {' and '.join(map(str, shapes))} look like images: they are flattened, and plain "
        "networks learn little from pixels. Give images as uint8, which a convolutional network sees"
    )


def _image_shapes(layout: Mapping[str, Any]) -> list[Sequence[int]]:
    if "box" in layout:
        shape = tuple(layout["box"])
        # height and width, with the channels before or after them, or none
        sides = sorted(shape)[-2:]
        return [shape] if len(shape) in (2, 3) and sides[0] >= 16 else []
    parts = [part for _, part in layout.get("dict", ())] or layout.get("tuple", ())
    return [shape for part in parts for shape in _image_shapes(part)]
