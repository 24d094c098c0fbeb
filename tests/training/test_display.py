"""The display: what it says of an epoch, and that output which is no terminal stays plain."""

import io
import math
import re

import pytest
from rich.console import Console

from cvpo.training import display as module
from cvpo.training.display import Display


def plain() -> Console:
    return Console(file=io.StringIO(), force_terminal=False, width=80)


def terminal(width: int = 80) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=True, force_interactive=True, width=width, color_system="standard"
    )


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def metrics(epoch: int, **values) -> dict:
    numbers = {key.replace("_", "/", 1): value for key, value in values.items()}
    return {"epoch": epoch, "steps": 1000 * epoch, "wall_seconds": 2.0 * epoch} | numbers


def test_plain_lines():
    console = plain()
    with Display(100_000, [25.0], console=console) as display:
        display.message("a [bold]message[/bold]")
        display.phase("collect", 0.5)
        display.epoch(metrics(1, train_reward=-3.25, train_cost=30.0))
        display.epoch(metrics(2, train_reward=1234.56, train_cost=25.0, eval_reward=2.0, eval_cost=math.nan))
    assert written(console).splitlines() == [
        "a [bold]message[/bold]",
        "epoch    steps  steps/s   reward  cost<=25  eval reward  eval cost",
        "    1    1,000      500    -3.25    30.00!            -         -",
        "    2    2,000      500   1234.6    25.00          2.00       nan!",
    ]


def test_several_constraints_have_a_limit_each():
    console = plain()
    with Display(100_000, [10.0, math.inf, 0.5], console=console) as display:
        display.epoch(metrics(1, train_cost_0=11.0, train_cost_1=900.0, train_cost_2=0.25))
    header, row = written(console).splitlines()
    assert "cost<=10 - 0.5" in header
    assert re.search(r"11\.00!\s+900\.0\s+0\.25\s", row)


def test_unconstrained_runs_show_a_cost_without_a_limit():
    console = plain()
    with Display(100_000, [math.inf], console=console) as display:
        display.epoch(metrics(1, train_cost=1e9))
    assert "<=" not in written(console) and "!" not in written(console)


def test_a_line_is_not_broken_where_there_is_no_terminal():
    console = plain()
    with Display(100_000, [1.0] * 8, console=console) as display:
        display.epoch(metrics(1, **{f"train_cost_{i}": 0.5 for i in range(8)}))
        display.message("long " * 40)
    assert len(written(console).splitlines()) == 3


def test_quiet_says_nothing():
    for console in (plain(), terminal()):
        with Display(100_000, [25.0], quiet=True, console=console) as display:
            display.message("text")
            display.epoch(metrics(1, train_reward=0.0, train_cost=30.0))
        assert written(console) == ""


def test_in_a_terminal_costs_are_red_above_their_limit_and_green_within_it():
    console = terminal()
    with Display(100_000, [25.0], console=console) as display:
        display.epoch(metrics(1, train_reward=1.0, train_cost=25.1, eval_reward=1.0, eval_cost=24.9))
    assert re.search(r"\x1b\[31m\s*25\.10!", written(console))
    assert re.search(r"\x1b\[32m\s*24\.90", written(console))


def bars(display: Display, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(display._bars())
    return written(console).splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_the_bars_show_speed_remaining_time_and_phase(monkeypatch, width):
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    display = Display(10_000, [25.0], quiet=True, console=terminal(width))
    first = bars(display, width)[0]
    assert "epoch 0" in first and "-:--:-- left" in first  # no epoch yet: nothing to estimate from
    display.epoch(metrics(1))
    display.phase("learn", 0.25)
    now += 3.0
    run, phase = bars(display, width)
    # 9,000 steps at 500 steps/s take 18 s, of which 3 are gone.
    for part in ("epoch 2", "1,000/10,000", "500 steps/s", "0:00:15 left"):
        assert part in run
    for part in ("learn", "25%", "0:00:05 elapsed"):
        assert part in phase
    assert len(run) <= width and len(phase) <= width


def test_a_resumed_run_starts_where_it_was():
    console = plain()
    display = Display(10_000, [25.0], console=console)
    display.resume(epoch=4, steps=4000, wall_seconds=8.0)
    run = bars(display, 80)[0]
    assert "epoch 5" in run and "4,000/10,000" in run and "500 steps/s" in run
    display.epoch(metrics(5) | {"wall_seconds": 12.0})
    assert re.search(r"5,000 +250 ", written(console))  # 1,000 steps since the start, in 12 - 8 seconds


def test_the_terminal_is_restored_when_a_run_fails():
    console = terminal()
    with pytest.raises(KeyboardInterrupt), Display(100_000, [25.0], console=console):
        raise KeyboardInterrupt
    text = written(console)
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l") >= 0  # the cursor was hidden, and is shown again
