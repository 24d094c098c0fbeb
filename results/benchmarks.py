"""Write docs/benchmarks.md from finished runs: `python results/benchmarks.py RUNS ... [--also NAME RUNS]`.

Each suite of `cvpo reproduce` gets a table of the methods that were run, beside the published numbers of the same tasks
(published.toml), and its curves. What was not run to its end is left out.
"""

from __future__ import annotations

import argparse
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cvpo.experiments.suites import SUITES, make_grid
from cvpo.report.curves import training_curves
from cvpo.report.load import CONVERGED, RunRecord, load_runs
from cvpo.report.methods import without_kl
from cvpo.report.statistics import five_numbers, mean
from cvpo.report.study import Study
from cvpo.report.style import rendered, styled

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
OURS = "CVPO"
TITLES = {
    "paper": "The paper's tasks",
    "velocity": "Safety Gym: velocity",
    "navigation": "Safety Gym: navigation",
}
INTRODUCTION = f"""# Benchmarks

The methods here beside the numbers that others have published for the same tasks. One setting is
used for all tasks. Rewards and costs here are those of the policies without noise: the mean over
the evaluations in the last {CONVERGED:.0%} of training and over seeds, with the third quartile of the costs
of all these evaluations. A cost in bold is above the limit. Rows that were not run to their end are
left out. One seed decides nothing: read the column of seeds.

"CVPO" alone has today's defaults. The rows "before" are of earlier defaults, and "settings by task"
of the time when some tasks had settings of their own; the [lab
book](lab_book.md#where-do-todays-defaults-stand) says what has changed since. Their runs are in
`results/before` and `results/earlier`. The `config.json` beside each run has its settings.
A task without a row "CVPO" from here was not run with today's defaults yet.

This page is written by `python results/benchmarks.py RUNS ...` from the runs that the commands
leave; the published numbers are in `results/published.toml`.
"""


class Row(NamedTuple):
    """A method on a task."""

    task: str
    method: str
    steps: float
    seeds: int | None  # None: not stated where it is published
    reward: float
    reward_deviation: float
    cost: float  # NaN: not published
    third_quartile: float  # of the cost; NaN: not published
    limit: float
    source: str
    off_policy: bool

    @property
    def feasible(self) -> bool:
        return self.cost <= self.limit


def measured(study: Study, task: str, method: str, name: str) -> Row:
    """A method that was run here."""
    runs = study.select(task, method)
    rewards = np.array([mean(run.eval_reward[run.converged]) for run in runs])
    costs = np.concatenate([run.eval_costs[0][run.converged] for run in runs])
    steps = float(np.median([run.steps[-1] for run in runs]))
    deviation = float(rewards.std(ddof=1)) if len(runs) > 1 else 0.0
    cost, third_quartile = mean(costs), float(five_numbers(costs)[3])
    return Row(
        task, name, steps, len(runs), mean(rewards), deviation, cost, third_quartile, study.limits(task)[0], "here",
        runs[0].off_policy,
    )  # fmt: skip


def published(tables: dict[str, Any], suite: str, task: str, limit: float) -> Iterator[Row]:
    """What others have published for a task."""
    for key, methods in tables.get(task, {}).items():
        source = tables["sources"][key]
        steps = methods.get("steps", source["steps"][suite])
        for method, (reward, *cost) in ((name, value) for name, value in methods.items() if name != "steps"):
            origin = f"[{source['name']}]({source['url']})"
            seen = float(cost[0]) if cost else np.nan
            yield Row(task, method, steps, None, reward, 0.0, seen, np.nan, limit, origin, source["off_policy"])


def rows_of(suite: str, study: Study, tables: dict[str, Any], also: dict[str, Study]) -> list[Row]:
    rows = []
    for task in SUITES[suite]["quick"].tasks:
        here = [measured(study, task, method, method) for method in study.methods if study.select(task, method)]
        here += [measured(other, task, OURS, name) for name, other in also.items() if other.select(task, OURS)]
        if here:
            rows += [*here, *published(tables, suite, task, here[0].limit)]
    return rows


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def table(rows: Sequence[Row]) -> str:
    lines = ["| task | method | steps | seeds | reward | cost | third quartile | from |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |")
    previous = ""
    for row in rows:
        costs = [
            "-" if np.isnan(cost) else f"{cost:.1f}" if cost <= row.limit else f"**{cost:.1f}**"
            for cost in (row.cost, row.third_quartile)
        ]
        reward = number(row.reward) + (f" ± {number(row.reward_deviation)}" if row.reward_deviation else "")
        cells = (
            row.task if row.task != previous else "", row.method, f"{row.steps:,.0f}",
            "-" if row.seeds is None else str(row.seeds), reward, *costs, row.source,
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
        previous = row.task
    return "\n".join(lines)


def verdicts(rows: Sequence[Row]) -> str:
    """CVPO against the best published off-policy method that keeps the limit, task by task."""
    lines = ["| task | limit kept | best published within it | CVPO | of its steps | reached |"]
    lines.append("| --- | --- | --- | ---: | ---: | --- |")
    for ours in (row for row in rows if row.source == "here" and row.method == OURS):
        others = [row for row in rows if row.task == ours.task and row.source != "here" and row.off_policy]
        best = max((row for row in others if row.feasible), key=lambda row: row.reward, default=None)
        kept = "yes" if max(ours.cost, ours.third_quartile) <= ours.limit else "no"
        if best is None:
            lines.append(f"| {ours.task} | {kept} | none | {number(ours.reward)} | - | - |")
            continue
        share = ours.steps / best.steps
        reached = "yes" if ours.reward >= best.reward and kept == "yes" else "no"
        lines.append(
            f"| {ours.task} | {kept} | {best.method}, {number(best.reward)} | {number(ours.reward)} | {share:.0%} | "
            f"{reached} |"
        )
    return "\n".join(lines)


def notes(rows: Sequence[Row], tables: dict[str, Any]) -> str:
    """What else there is to know of these tasks' published numbers, as a list."""
    known = tables["notes"]
    tasks = dict.fromkeys(row.task for row in rows if row.task in known)
    lines = (textwrap.wrap(f"- {task}: {known[task]}", 100, subsequent_indent="  ") for task in tasks)
    return "".join("\n".join(line) + "\n" for line in lines)


def commands(suite: str, runs: Sequence[RunRecord]) -> str:
    """What was run, as commands that run it again: one for each combination of tasks, seeds, steps and preset."""
    plan = SUITES[suite]["quick"]

    def other_steps(run: RunRecord, name: str) -> int | None:
        """The steps of a run if they are not those that the suite plans for its task."""
        planned = {spec.steps for spec in make_grid(suite, "quick", [run.env], [name], 1)} if name in plan.seeds else {}
        return None if run.planned_steps in planned else run.planned_steps

    seeds_of: dict[tuple[str, str, int | None, str], set[int]] = {}
    for run in runs:
        name, preset = _method_and_preset(run)
        seeds_of.setdefault((name, preset, other_steps(run, name), run.env), set()).add(run.seed)
    alike: dict[tuple[str, str, int | None, int], set[str]] = {}
    for (name, preset, steps, task), run_seeds in seeds_of.items():
        alike.setdefault((name, preset, steps, len(run_seeds)), set()).add(task)
    lines: dict[str, list[str]] = {}
    for (name, preset, steps, seeds), own in alike.items():
        tasks = [task for task in plan.tasks if task in own]
        known = name in plan.seeds
        options = "" if tasks == list(plan.tasks) and known else f" --tasks {' '.join(tasks)}"
        if seeds != plan.seeds.get(name):
            options += f" --seeds {seeds}"
        if steps is not None:
            options += f" --steps {steps}"
        options += "" if preset == "default" else f" --preset {preset}"
        lines.setdefault(f"cvpo {f'reproduce --suite {suite}' if known else 'sweep'}{{}}{options}", []).append(name)
    return "\n".join(_wrapped(line.format(f" --algorithms {' '.join(names)}")) for line, names in lines.items())


def _wrapped(command: str) -> str:
    """A command in lines that fit on the page."""
    lines = textwrap.wrap(command, 96, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return " \\\n".join(lines)


def _method_and_preset(run: RunRecord) -> tuple[str, str]:
    return run.algorithm + ("-no-kl" if without_kl(run) else ""), str(run.settings.get("preset", "default"))


def section(suite: str, study: Study, tables: dict[str, Any], also: dict[str, Study], images: Path) -> str:
    """The part of the page about a suite, and its picture; empty if it has no run."""
    rows = rows_of(suite, study, tables, also)
    tasks = {row.task for row in rows}
    runs = [run for run in study.runs if run.env in tasks]
    if not runs:  # the runs of `also` have neither today's command nor a picture
        return f"\n## {TITLES[suite]}\n\n{table(rows)}\n" if rows else ""
    shown = Study.of(runs)
    picture = images / f"benchmark-{suite}.png"
    with styled():
        picture.write_bytes(rendered(training_curves(shown, shown.methods), ["png"])["png"])
    text = f"\n## {TITLES[suite]}\n\n```bash\n{commands(suite, runs)}\n```\n\n{table(rows)}\n"
    ours = any(row.source == "here" and row.method == OURS for row in rows)
    if ours and any(row.source != "here" for row in rows):
        text += (
            "\nAgainst the best published off-policy method whose cost is within the limit (limit kept: mean\n"
            f"and third quartile of CVPO's late evaluations):\n\n{verdicts(rows)}\n"
        )
        remarks = notes(rows, tables)
        text += f"\n{remarks}" if remarks else ""
    return text + f"\n![Curves of training, {TITLES[suite]}](images/{picture.name})\n"


def write_page(runs: Sequence[str | Path], page: Path, also: dict[str, list[str | Path]] | None = None) -> None:
    """Write the page, and its pictures into images/ beside it."""
    with (HERE / "published.toml").open("rb") as file:
        tables = tomllib.load(file)

    def finished(paths: Sequence[str | Path]) -> Study:
        return Study.of([run for run in load_runs(paths)[0] if run.finished])

    study, others = finished(runs), {name: finished(paths) for name, paths in (also or {}).items()}
    (page.parent / "images").mkdir(parents=True, exist_ok=True)
    sections = [section(suite, study, tables, others, page.parent / "images") for suite in SUITES]
    page.write_text(INTRODUCTION + "".join(sections))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="directories with runs")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument(
        "--also", nargs=2, action="append", default=[], metavar=("NAME", "RUNS"),
        help="show the CVPO runs of another directory as a row of this name",
    )  # fmt: skip
    arguments = parser.parse_args()
    write_page(arguments.runs, arguments.page, {name: [path] for name, path in arguments.also})
