"""What a cost limit is on: the mean of the episodes' costs, a quantile of them, or the mean of the worst (CVaR).

Nothing here needs JAX: policies are judged by the same statistic as they were trained with.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cvpo.errors import BadValue


class Constraint(NamedTuple):
    kind: str  # mean, quantile or cvar
    q: float = 0.0


def parse_constraint(text: str) -> Constraint:
    """`mean`, `quantile=0.9` (nine of ten episodes within the limit) or `cvar=0.9` (the mean of the worst tenth is)."""
    if text == "mean":
        return Constraint("mean")
    kind, _, argument = text.partition("=")
    try:
        q = float(argument)
    except ValueError:
        q = 0.0
    if kind not in ("quantile", "cvar") or not 0.0 < q < 1.0:
        raise BadValue(
            f"constraint must be mean, quantile=Q or cvar=Q with Q between 0 and 1, as in quantile=0.9; got {text!r}"
        )
    return Constraint(kind, q)


def measured_cost(constraint: str, episode_costs: Any, numpy: ModuleType = np) -> Any:
    """The statistic [m] of episodes' costs [n, m] that is held at the limit; rows of NaN are no episodes.

    numpy: jax.numpy, to use it in a traced function.
    A quantile is the smallest cost that at least the share q of the episodes does not exceed. CVaR is the mean of the
    worst share 1 - q; a part of an episode counts in part.
    """
    kind, q = parse_constraint(constraint)
    if kind == "mean":
        return numpy.nanmean(episode_costs, axis=0)
    known = ~numpy.isnan(episode_costs)
    count = known.sum(0)  # [m]
    worst_first = -numpy.sort(numpy.where(known, -episode_costs, numpy.inf), axis=0)  # what is missing comes last
    rank = numpy.arange(len(episode_costs))[:, None]
    tail = (1 - q) * count
    if kind == "quantile":
        # with k of n over the quantile, k <= (1 - q) n: the next one is the quantile
        index = numpy.minimum(numpy.floor(tail + 1e-6), count - 1).astype(int)
        return numpy.take_along_axis(worst_first, index[None], axis=0)[0]
    weight = numpy.clip(tail - rank, 0.0, 1.0)
    return (weight * numpy.where(weight > 0, worst_first, 0.0)).sum(0) / tail
