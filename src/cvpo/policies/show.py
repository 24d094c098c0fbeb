"""Evaluations on the terminal: a progress bar while they run, a table and a verdict afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from cvpo.policies.episodes import Progress as Report

_VERDICTS = {True: ("safe", "green"), False: ("not safe", "red"), None: ("open", "yellow")}


@contextmanager
def waiting(what: str, quiet: bool = False) -> Iterator[Report]:
    """A progress bar that goes away when the work is done; on a terminal only."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda fraction: bar.update(task, completed=fraction)


def show_evaluation(result: dict[str, Any]) -> None:
    console = Console()
    console.print(evaluation_table(result))
    _print_verdict(console, result)


def show_comparison(result: dict[str, Any], runs: Sequence[Any]) -> None:
    console = Console()
    console.print(comparison_table(result, (str(runs[0]), str(runs[1]))))
    for run, which in zip(runs, ("first", "second"), strict=True):
        console.print(f"{run}:", highlight=False)
        _print_verdict(console, result[which])


def _print_verdict(console: Console, result: dict[str, Any]) -> None:
    word, colour = _VERDICTS[result["safe"]]
    # never wrapped: a script may look for the line
    console.print(f"[bold {colour}]{word}:[/] {result['verdict']}", highlight=False, soft_wrap=True)


def evaluation_table(result: dict[str, Any]) -> Table:
    """One column of numbers for each cost limit, with what they mean on the left."""
    level = f"{result['level']:.0%}"
    several = isinstance(result["cost_limit"], list)
    columns = [_cost_column(result, i if several else None) for i in range(len(result["cost_limit"]) if several else 1)]
    table = Table(title=f"{result['episodes']} episodes", title_justify="left", show_edge=False, pad_edge=False)
    table.add_column("")
    for i in range(len(columns)):
        table.add_column(f"cost {i}" if several else "cost", justify="right")
    table.add_column("reward", justify="right")
    low, high = result["reward_interval"]
    reward = {"mean": f"{result['reward']:.4g}", "interval": f"{low:.4g} to {high:.4g}", "limit": ""}
    names = {
        "mean": "mean",
        "interval": f"its {level} interval",
        "bound": f"its upper bound, {level}" + ("" if result["cost_bound_holds"] else " (approximate)"),
        "limit": "limit",
        "median": "median",
        **{f"q{q}": f"{float(q):.0%} quantile" for q in ("0.9", "0.95", "0.99")},
        "cvar0.9": "mean of the worst 10%",
        "cvar0.95": "mean of the worst 5%",
        "largest": "largest",
    }
    for key, name in names.items():
        table.add_row(name, *(column[key] for column in columns), reward.get(key, ""))
    low, high = result["over_limit_interval"]
    over = f"{result['over_limit']:.1%} ({low:.1%} to {high:.1%})"
    table.add_row("episodes over the limit", over, *[""] * len(columns))
    for name, part in result["cost_parts"].items():
        low, high = part["interval"]
        text = f"{part['mean']:.4g} ({low:.4g} to {high:.4g})"
        table.add_row(f"from {name.removeprefix('cost_').replace('_', ' ')}", text, *[""] * len(columns))
    return table


def comparison_table(result: dict[str, Any], names: tuple[str, str]) -> Table:
    """Two policies side by side and their paired difference."""
    level = f"{result['first']['level']:.0%}"
    table = Table(title=f"{result['first']['episodes']} episodes, the same seeds", title_justify="left")
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    table.add_column(f"difference ({level} interval)", justify="right")
    rows: list[tuple[str, str, int | None]] = [("reward", "reward", None)]
    costs = result["difference"]["cost"]
    rows += (
        [("cost", "cost", None)] if isinstance(costs, dict) else [(f"cost {i}", "cost", i) for i in range(len(costs))]
    )
    for label, key, i in rows:
        values = [result[which][key] if i is None else result[which][key][i] for which in ("first", "second")]
        difference = result["difference"][key] if i is None else result["difference"][key][i]
        low, high = difference["interval"]
        table.add_row(
            label, *(f"{value:.4g}" for value in values), f"{difference['mean']:+.4g} ({low:+.4g} to {high:+.4g})"
        )
    shares = [f"{result[which]['over_limit']:.1%}" for which in ("first", "second")]
    table.add_row("episodes over the limit", *shares, "")
    return table


def _cost_column(result: dict[str, Any], i: int | None) -> dict[str, str]:
    def get(key: str) -> Any:
        return result[key] if i is None else result[key][i]

    tail, (low, high) = get("cost_tail"), get("cost_interval")
    return {
        "mean": f"{get('cost'):.4g}",
        "interval": f"{low:.4g} to {high:.4g}",
        "bound": f"{get('cost_upper_bound'):.4g}",
        "limit": f"{get('cost_limit'):g}",
        "median": f"{tail['quantiles']['0.5']:.4g}",
        **{f"q{q}": f"{tail['quantiles'][q]:.4g}" for q in ("0.9", "0.95", "0.99")},
        **{f"cvar{q}": f"{value:.4g}" for q, value in tail["cvar"].items()},
        "largest": f"{tail['largest']:.4g}",
    }
