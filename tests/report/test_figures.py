"""What the figures show: the lines and boxes that are drawn, against numbers known beforehand."""

import numpy as np
import pytest
from made_runs import write_run
from matplotlib.colors import to_hex

from cvpo.report import comparisons, curves, draw_run
from cvpo.report.figures import draw_figures
from cvpo.report.load import load_runs
from cvpo.report.study import Study
from cvpo.report.style import looks, rendered, short_number, styled


def study_of(runs):
    return Study.of(load_runs([runs])[0])


def lines(axes, study, method):
    """The data of the lines of a method."""
    color = looks(study.methods)[method].color
    return [(line.get_xdata(), line.get_ydata()) for line in axes.lines if to_hex(line.get_color()) == color.lower()]


def limit_of(axes):
    return [line.get_ydata()[0] for line in axes.lines if line.get_label() == "limit"]


def test_training_curves_are_means_over_seeds_with_their_deviation(runs):
    write_run(runs / "a", [0.0, 2.0, 4.0], [30.0, 20.0, 5.0], seed=0)
    write_run(runs / "b", [2.0, 4.0, 8.0], [10.0, 10.0, 5.0], seed=1)
    study = study_of(runs)
    reward, cost = curves.training_curves(study, study.methods).axes
    ((x, y),) = lines(reward, study, "CVPO")
    assert x.tolist() == [1000, 2000, 3000] and y.tolist() == [1.0, 3.0, 6.0]
    band = reward.collections[0].get_paths()[0].vertices
    at_end = band[band[:, 0] == 3000][:, 1]
    assert (at_end.min(), at_end.max()) == (4.0, 8.0)
    ((x, y),) = lines(cost, study, "CVPO")
    assert y.tolist() == [20.0, 15.0, 5.0]
    assert limit_of(cost) == [10.0] and limit_of(reward) == []
    assert reward.get_title() == "Point-Goal" and cost.get_xlabel() == "environment steps"


def test_runs_of_other_epochs_meet_at_equal_steps(runs):
    write_run(runs / "a", [1.0, 2.0, 3.0], [0.0] * 3, epoch_steps=2000)
    write_run(runs / "b", [2.0, 6.0], [0.0] * 2, epoch_steps=3000, seed=1)
    study = study_of(runs)
    ((x, y),) = lines(curves.training_curves(study, study.methods).axes[0], study, "CVPO")
    # the first run's last two epochs are averaged; at 3000 it is a quarter of the way from 1 to their 2.5
    assert x.tolist() == [2000, 3000, 6000] and y.tolist() == [1.0, (1.375 + 2.0) / 2, (2.5 + 6.0) / 2]


def test_a_row_for_each_constraint(runs):
    write_run(runs / "two", [1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], limits=(2.5, 3.5), env="Two")
    write_run(runs / "one", [1.0, 2.0], [5.0, 6.0], env="One")
    study = study_of(runs)
    figure = curves.training_curves(study, study.methods)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_ylabel() for axes in shown] == ["reward", "reward", "cost", "cost 1", "cost 2"]
    assert [limit_of(axes) for axes in shown] == [[], [], [10.0], [2.5], [3.5]]


def test_many_tasks_continue_below(runs):
    for number in range(8):
        write_run(runs / str(number), [1.0], [0.0], env=f"Task-{number}")
    study = study_of(runs)
    figure = curves.limit_satisfaction(study)
    assert [axes.get_title() for axes in figure.axes] == [f"Task-{number}" for number in range(8)]
    assert len({round(axes.get_position().y0, 3) for axes in figure.axes}) == 2


def test_reward_over_the_cost_that_it_took(runs):
    # nothing is paid in the first epoch, nor in the last: of two rewards for the same cost, the later counts
    write_run(runs / "a", [0.0, 1.0, 3.0, 5.0], [0, 0, 0, 0], cumulative=[0.0, 10.0, 1000.0, 1000.0])
    write_run(runs / "b", [2.0, 3.0], [0, 0], cumulative=[10.0, 1000.0], seed=1)
    study = study_of(runs)
    (axes,) = curves.reward_against_cost(study).axes
    ((x, y),) = lines(axes, study, "CVPO")
    assert x == pytest.approx([10.0, 1000.0]) and y == pytest.approx([1.5, 4.0])
    assert axes.get_xscale() == "log"


def test_between_costs_reward_is_straight_on_the_log_axis(runs):
    write_run(runs / "a", [0.0, 2.0], [0, 0], cumulative=[10.0, 1000.0])
    write_run(runs / "b", [0.0, 5.0, 6.0], [0, 0, 0], cumulative=[10.0, 100.0, 1000.0], seed=1)
    study = study_of(runs)
    ((x, y),) = lines(curves.reward_against_cost(study).axes[0], study, "CVPO")
    assert x == pytest.approx([10.0, 100.0, 1000.0]) and y == pytest.approx([0.0, 3.0, 4.0])


def test_boxes_are_the_five_numbers_of_the_last_fifth(runs):
    cost = np.concatenate([np.full(40, 99.0), [1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 11.0]])
    write_run(runs / "a", np.zeros(50), cost)  # of 50 epochs the last 10 count
    study = study_of(runs)
    (axes,) = comparisons.convergence_boxes(study).axes
    box = axes.patches[0].get_path().vertices[:, 0]
    assert (box.min(), box.max()) == (3.25, 7.75)
    horizontal = sorted({float(x) for line in axes.lines for x in np.ravel(line.get_xdata())})
    assert horizontal == [1.0, 3.25, 5.5, 7.75, 10.0, 11.0]  # whiskers, median and the limit
    assert [label.get_text() for label in axes.get_yticklabels()] == ["CVPO (off)"]


def test_intervals_show_interquartile_means_and_all_tasks_together(runs):
    finals = {"Point-Goal": [2.0, 4.0, 6.0, 20.0], "Car-Goal": [1.0, 1.0, 1.0, 1.0]}
    for task, rewards in finals.items():
        for seed, reward in enumerate(rewards):
            write_run(runs / task / str(seed), [0.0, *[reward] * 9], np.full(10, 5.0), env=task, seed=seed)
    write_run(runs / "sac", [0.0, *[0.5] * 9], np.full(10, 20.0), env="Car-Goal", algorithm="sac-lag")
    study = study_of(runs)
    figure = comparisons.final_intervals(study)
    panels = {(axes.get_title(), axes.get_xlabel()): axes for axes in figure.axes}

    def drawn(title, label):
        interval, middle = lines(panels[title, label], study, "CVPO")
        return [*interval[0], *middle[0]]

    low, high, middle = drawn("Point-Goal", "final reward")
    assert middle == 5.0 and 2.0 <= low < 5.0 < high <= 20.0
    assert drawn("Car-Goal", "final reward") == [1.0, 1.0, 1.0]
    # scaled by the best mean (8 and 1): .25 .5 .75 2.5 and four ones; the middle four are .75 1 1 1
    assert drawn("all tasks", "normalised reward")[2] == pytest.approx(0.9375)
    costs = [axes for axes in figure.axes if axes.get_xlabel() == "cost / limit"]
    _, middle = lines(costs[0], study, "CVPO")
    assert middle[0] == pytest.approx([0.5])
    assert lines(costs[0], study, "SAC-Lag") == []  # it lacks a task


def test_probability_of_satisfying_the_limit(runs):
    # windows of a tenth of 20 epochs: two epochs
    write_run(runs / "a", np.zeros(20), [20.0] * 10 + [10.0] * 10)
    write_run(runs / "b", np.zeros(20), [20.0] * 20, seed=1)
    study = study_of(runs)
    ((_, y),) = lines(curves.limit_satisfaction(study).axes[0], study, "CVPO")
    assert y.tolist() == [0.0] * 10 + [0.25] + [0.5] * 9


def test_all_constraints_must_be_satisfied_at_once(runs):
    write_run(runs / "a", [0.0, 0.0], [[1.0, 1.0], [1.0, 9.0]], limits=(5.0, 5.0))
    study = study_of(runs)
    ((_, y),) = lines(curves.limit_satisfaction(study).axes[0], study, "CVPO")
    assert y.tolist() == [1.0, 0.0]


def test_an_unconstrained_run_is_held_against_the_limit_of_the_task(runs):
    write_run(runs / "a", [0.0, 0.0], [5.0, 5.0], limits=(10.0,))
    write_run(runs / "b", [0.0, 0.0], [20.0, 20.0], limits=("Infinity",), algorithm="trpo")
    study = study_of(runs)
    ((_, y),) = lines(curves.limit_satisfaction(study).axes[0], study, "TRPO")
    assert y.tolist() == [0.0, 0.0]


def test_far_costs_leave_the_limit_visible(runs):
    write_run(runs / "near", [0.0, 0.0], [8.0, 40.0], env="Near")
    write_run(runs / "far", [0.0, 0.0], [8.0, 400.0], env="Far")
    study = study_of(runs)
    figure = curves.training_curves(study, study.methods)
    far, near = figure.axes[2:]
    assert near.get_yscale() == "linear" and far.get_yscale() == "symlog"
    assert {0.0, 10.0, 20.0, 100.0} <= set(far.get_yticks())

    def height(value):
        return far.transAxes.inverted().transform(far.transData.transform((0.0, value)))[1]

    assert height(0.0) == pytest.approx(0.0) and height(10.0) > 0.15 and height(400.0) < 1.0


def figure_methods(figure):
    return [text.get_text() for text in figure.legends[0].get_texts() if text.get_text() != "cost limit"]


def test_which_figures_there_are(runs):
    for name in ("sac-lag", "trpo", "cpo"):
        write_run(runs / name, [1.0, 2.0], [1.0, 2.0], algorithm=name)
    figures = {drawn.name: drawn.figure for drawn in draw_figures(study_of(runs))}
    assert "kl_ablation" not in figures
    write_run(runs / "cvpo", [1.0, 2.0], [1.0, 2.0])
    write_run(runs / "no-kl", [1.0, 2.0], [1.0, 2.0], config={"kl_constraint": False})
    write_run(runs / "other task", [1.0, 2.0], [1.0, 2.0], env="Car-Goal")
    figures = {drawn.name: drawn.figure for drawn in draw_figures(study_of(runs))}
    assert figure_methods(figures["training_off_policy"]) == ["CVPO", "SAC-Lag"]
    assert figure_methods(figures["training_on_policy"]) == ["CVPO", "TRPO", "CPO"]
    assert figure_methods(figures["kl_ablation"]) == ["CVPO", "CVPO (no KL)"]
    assert [axes.get_title() for axes in figures["kl_ablation"].axes] == ["Point-Goal", ""]  # where both were run
    assert figures.keys() == {
        "training_off_policy", "training_on_policy", "reward_against_cost", "convergence_cost", "kl_ablation",
        "final_intervals", "limit_satisfaction",
    }  # fmt: skip


def test_a_method_looks_the_same_with_and_without_others(runs):
    plain = looks(["CVPO", "SAC-Lag"])
    with_variant = looks(["CVPO", "CVPO (no KL)", "SAC-Lag"])
    assert plain == {name: with_variant[name] for name in plain}
    many = looks([f"M{number}" for number in range(30)])
    assert len(set(many.values())) == 30


def test_draw_run(runs, tmp_path):
    path = write_run(runs / "a", [1.0, 2.0], [3.0, 4.0], extra=lambda epoch: {"eval/reward": 5.0, "eval/cost": 6.0})
    assert draw_run(path, tmp_path / "new" / "run.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in draw_run(path, tmp_path / "run.svg").read_bytes()
    with pytest.raises(ValueError, match=r"\.png, \.svg or \.pdf, got .*run\.jpeg"):
        draw_run(path, tmp_path / "run.jpeg")
    figure = curves.run_figure(load_runs([path])[0][0])
    reward, cost = figure.axes
    assert [line.get_ydata().tolist() for line in reward.lines] == [[1.0, 2.0], [5.0, 5.0]]
    assert [line.get_ydata()[0] for line in cost.lines] == [3.0, 6.0, 10.0]


def test_the_same_figure_gives_the_same_file(runs):
    write_run(runs / "a", [1.0, 2.0], [3.0, 4.0])
    study = study_of(runs)
    with styled():
        first, second = (rendered(curves.limit_satisfaction(study), ["svg", "png", "pdf"]) for _ in range(2))
    assert first == second and first["pdf"].startswith(b"%PDF")


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (950, "950"), (2500, "2.5k"), (1e6, "1M"), (-3e9, "-3G")])
def test_short_numbers(value, text):
    assert short_number(value) == text


def drawn_panels(study):
    """The visible axes of each figure, and how many curves, boxes or points with a place each has."""
    found = {}
    for drawn in draw_figures(study):
        for axes in drawn.figure.axes:
            if axes.get_visible():
                seen = [
                    line
                    for line in axes.lines
                    if line.get_label() != "limit"
                    and np.isfinite(np.asarray(line.get_ydata(), float)).any()
                    and (len(line.get_ydata()) > 1 or line.get_marker() not in ("None", None))
                ]
                found[drawn.name, axes.get_title(), axes.get_ylabel()] = len(seen) + len(axes.patches)
    return found


def test_odd_runs_leave_no_panel_empty(runs):
    write_run(runs / "one epoch", [1.0], [0.0], env="One epoch")
    write_run(runs / "no limit", [1.0, 2.0], [0.0, 0.0], env="No limit", algorithm="trpo", limits=("Infinity",))
    write_run(runs / "two", [1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], limits=(5.0, "Infinity"), env="Two")
    write_run(runs / "other limit", [1.0, 2.0], [3.0, 4.0], limits=(3.0,), env="One epoch")
    (write_run(runs / "failed", [1.0], [3.0], env="Failed", planned_epochs=9) / "error.txt").write_text("far")
    panels = drawn_panels(study_of(runs))
    assert panels and all(panels.values()), [name for name, seen in panels.items() if not seen]
    assert {figure for figure, *_ in panels} >= {"limit_satisfaction", "reward_against_cost", "final_intervals"}
    assert not any(title == "No limit" for figure, title, _ in panels if figure == "limit_satisfaction")


def test_without_limits_and_costs_there_is_nothing_to_draw_of_them(runs):
    write_run(runs / "a", [1.0, 2.0], [0.0, 0.0], limits=("Infinity",))
    names = [drawn.name for drawn in draw_figures(study_of(runs))]
    assert names == ["training_off_policy", "convergence_cost", "final_intervals"]
