"""The figures of a report: the paper's, and some beyond it. docs/reports.md says what each shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from matplotlib.figure import Figure

from cvpo.report import comparisons, curves
from cvpo.report.study import Study


class Drawn(NamedTuple):
    name: str  # of its file
    figure: Figure


def draw_figures(study: Study) -> Iterator[Drawn]:
    """All figures for which there are runs."""
    ablations = [method for method in study.methods if study.is_ablation(method)]
    regularized = [method for method in study.methods if _is_cvpo(study, method) and method not in ablations]
    compared = [method for method in study.methods if method not in ablations or not regularized]
    off_policy = [method for method in compared if study.off_policy(method)]
    on_policy = [method for method in compared if not study.off_policy(method)]
    if off_policy:
        yield Drawn("training_off_policy", curves.training_curves(study, off_policy))
    if on_policy:
        # The paper shows CVPO among the on-policy methods too.
        yield Drawn("training_on_policy", curves.training_curves(study, regularized + on_policy))
    if curves.any_paid(study):
        yield Drawn("reward_against_cost", curves.reward_against_cost(study))
    yield Drawn("convergence_cost", comparisons.convergence_boxes(study))
    if ablations and regularized:
        figure = curves.training_curves(study, [*regularized, *ablations], compared=ablations)
        yield Drawn("kl_ablation", figure)
    yield Drawn("final_intervals", comparisons.final_intervals(study))
    if curves.limited_tasks(study):
        yield Drawn("limit_satisfaction", curves.limit_satisfaction(study))


def _is_cvpo(study: Study, method: str) -> bool:
    return study.of_method(method)[0].algorithm == "cvpo"
