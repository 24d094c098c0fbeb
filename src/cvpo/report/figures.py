"""The figures of a report: the paper's, and some beyond it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from matplotlib.figure import Figure

from cvpo.report import comparisons, curves
from cvpo.report.load import CONVERGED
from cvpo.report.study import Study
from cvpo.report.style import FAR


class Drawn(NamedTuple):
    name: str  # of its file
    title: str
    caption: str
    figure: Figure


_FAR_BEYOND = f"Where costs exceed {FAR:g} times the limit, the axis is logarithmic above twice the limit."
_CURVES = (
    "Reward (higher is better) and cost of the training episodes: mean over seeds, shaded by one standard deviation. "
    f"Dashed: the cost limit. {_FAR_BEYOND}"
)


def draw_figures(study: Study) -> Iterator[Drawn]:
    """All figures for which there are runs."""
    ablations = [method for method in study.methods if study.is_ablation(method)]
    regularized = [method for method in study.methods if _is_cvpo(study, method) and method not in ablations]
    compared = [method for method in study.methods if method not in ablations or not regularized]
    off_policy = [method for method in compared if study.off_policy(method)]
    on_policy = [method for method in compared if not study.off_policy(method)]
    if off_policy:
        figure = curves.training_curves(study, off_policy)
        yield Drawn("training_off_policy", "Training, off-policy methods", _CURVES, figure)
    if on_policy:
        # The paper shows CVPO among the on-policy methods too.
        figure = curves.training_curves(study, regularized + on_policy)
        yield Drawn("training_on_policy", "Training, on-policy methods", _CURVES, figure)
    yield Drawn(
        "reward_against_cost",
        "Reward against cumulative cost",
        "Reward of the training episodes over all the cost paid until then, on a log axis: mean over seeds, shaded by "
        "one standard deviation. Curves further up and left pay less for the same reward.",
        curves.reward_against_cost(study),
    )
    yield Drawn(
        "convergence_cost",
        "Convergence cost",
        f"Cost of the epochs in the last {CONVERGED:.0%} of training, all seeds together: minimum, first quartile, "
        "median, third quartile, maximum. Dashed: the cost limit. (on) and (off): on-policy and off-policy. "
        f"{_FAR_BEYOND}",
        comparisons.convergence_boxes(study),
    )
    if ablations and regularized:
        yield Drawn(
            "kl_ablation",
            "The KL constraint of the M-step",
            f"CVPO with and without the trust region that holds the policy in the M-step. {_CURVES}",
            curves.training_curves(study, [*regularized, *ablations], compared=ablations),
        )
    yield Drawn(
        "final_intervals",
        "Final reward and cost",
        f"Interquartile means over seeds of the last {CONVERGED:.0%} of training, with 95% bootstrap intervals. All "
        "tasks together: rewards scaled so that 0 is untrained and 1 the best method of the task, costs divided by "
        "their limits, bootstrap stratified by task; only methods that have runs on every task.",
        comparisons.final_intervals(study),
    )
    yield Drawn(
        "limit_satisfaction",
        "Probability of satisfying the limit",
        "Share of seeds and epochs whose mean cost is within all limits, over a sliding "
        f"{curves.WINDOW:.0%} of training.",
        curves.limit_satisfaction(study),
    )


def _is_cvpo(study: Study, method: str) -> bool:
    return study.of_method(method)[0].algorithm == "cvpo"
