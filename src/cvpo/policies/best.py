"""Which epoch's policy was the best: the highest reward among those that were within their limit, and not by luck."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cvpo.metric_names import per_cost


class Evaluation(NamedTuple):
    epoch: int
    reward: float
    within: bool  # every cost within its limit


def best_epoch(metrics: Iterable[Mapping[str, Any]], limits: Sequence[float]) -> int | None:
    """The epoch whose policy a run keeps as its best, from the lines of its metrics; None if there is none yet.

    An evaluation has few episodes, and the best of many is the luckiest of them. So an epoch counts only if its own
    evaluation and the one before it were within every limit, and by the mean reward of the two. Of equals, the first.
    """
    evaluations = [_evaluation(line, limits) for line in metrics if "eval/reward" in line]
    scores = {
        now.epoch: 0.5 * (before.reward + now.reward)
        for before, now in itertools.pairwise(evaluations)
        if before.within and now.within
    }
    return max(scores, key=lambda epoch: scores[epoch]) if scores else None


def _evaluation(line: Mapping[str, Any], limits: Sequence[float]) -> Evaluation:
    # the statistic that the limit is on
    costs = np.array([line.get(f"eval/constrained_{end}", line[f"eval/{end}"]) for end in per_cost("cost", limits)])
    return Evaluation(int(line["epoch"]), float(line["eval/reward"]), bool((costs <= np.array(limits)).all()))
