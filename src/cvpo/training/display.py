"""What a user sees of a run: a line per epoch, and in a terminal live bars below them."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cvpo.metric_names import cost_names

_SMOOTHING = 0.3  # weight of the newest epoch in the speed that the remaining time is estimated from
COMPILING = "compiling, once"
_COST_WIDTH = 7  # so that two constraints fit 80 columns


class Display:
    """Shows a run of `total_steps`, with one cost limit per constraint (inf: none).

    `quiet` shows nothing. Output that is no terminal gets plain lines without control codes. A cost above its limit is
    red, and marked "!" for those who see no colours.
    """

    def __init__(
        self,
        total_steps: int,
        cost_limits: Sequence[float],
        *,
        quiet: bool = False,
        console: Console | None = None,
    ):
        self._total = total_steps
        self._limits = tuple(cost_limits)
        self._quiet = quiet
        self.last_word = ""  # how to go on with the run, once it has a place
        self._console = console or Console()
        self._epoch, self._steps, self._seconds = -1, 0, 0.0  # of the last epoch that ended; the first is 0
        self._speed = math.nan  # steps per second, smoothed
        self._phase: str = "start"
        self._fraction: float | None = None
        self._epoch_began = time.monotonic()
        self._header_shown = self._compiling_said = False
        self._live = Live(console=self._console, get_renderable=self._bars, refresh_per_second=8, transient=True)
        self._live_wanted = self._console.is_interactive and not quiet

        limits = " ".join("-" if math.isinf(limit) else f"{limit:g}" for limit in self._limits)
        cost = f"cost<={limits}" if any(map(math.isfinite, self._limits)) else "cost"
        self._titles = ("epoch", "steps", "steps/s", "reward", cost, "eval reward", "eval cost")
        costs_width = _COST_WIDTH * len(self._limits)
        widths = (5, len(f"{total_steps:,}"), 7, 7, costs_width, 7, costs_width)
        self._widths = [max(width, len(title)) for width, title in zip(widths, self._titles, strict=True)]

    def __enter__(self) -> Display:
        if self._live_wanted:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def leave(self) -> None:
        """Give the terminal back and say the last word, for a process that ends at once."""
        self._live.stop()
        self.message(f"stopped at once; finished epochs are kept{self.last_word and '; ' + self.last_word}")

    def resume(self, epoch: int, steps: int, wall_seconds: float) -> None:
        """Go on after an epoch that an earlier process ended."""
        self._epoch, self._steps, self._seconds = epoch, steps, wall_seconds
        self._speed = steps / wall_seconds

    def phase(self, name: str, fraction: float | None) -> None:
        """What the run does now ("collect", "learn", ...) and how much of that is done, in [0, 1]; None: unknown."""
        if name == COMPILING and self._epoch < 0 and not self._live_wanted and not self._compiling_said:
            self.message(f"{COMPILING}: the first epoch takes longer than the others")
            self._compiling_said = True
        self._phase, self._fraction = name, fraction

    def epoch(self, metrics: Mapping[str, Any]) -> None:
        """Show the metrics of an epoch that has ended. Those of an evaluation may be missing."""
        steps, seconds = int(metrics["steps"]), float(metrics["wall_seconds"])
        speed = (steps - self._steps) / max(seconds - self._seconds, 1e-9)
        self._speed = speed if math.isnan(self._speed) else (1 - _SMOOTHING) * self._speed + _SMOOTHING * speed
        self._epoch, self._steps, self._seconds = int(metrics["epoch"]), steps, seconds
        self._epoch_began = time.monotonic()
        if not self._header_shown:
            self._print(self._line(self._titles, style="bold"))
            self._header_shown = True
        cells = (
            str(self._epoch),
            f"{steps:,}",
            f"{speed:,.0f}",
            _number(metrics.get("train/reward")),
            self._costs(metrics, "train"),
            _number(metrics.get("eval/reward")),
            self._costs(metrics, "eval"),
        )
        self._print(self._line(cells))

    def message(self, text: str) -> None:
        """Show a line of text."""
        self._print(Text(text))

    def _print(self, line: Text) -> None:
        if not self._quiet:
            self._console.print(line, soft_wrap=True, highlight=False)

    def _line(self, cells: Sequence[str | Text], style: str = "") -> Text:
        line = Text(style=style)
        for cell, width in zip(cells, self._widths, strict=True):
            line.append(" " * (width - len(cell) + (2 if line else 0)))
            line.append(cell)
        line.rstrip()
        return line

    def _costs(self, metrics: Mapping[str, Any], group: str) -> Text:
        """A group's costs side by side."""
        text = Text()
        for key, limit in zip(cost_names(f"{group}/cost", len(self._limits)), self._limits, strict=True):
            cost = metrics.get(key)
            above = cost is not None and not cost <= limit  # NaN too
            style = "" if cost is None else "red" if above else "green"
            text.append(f"{_number(cost) + ('!' if above else ' '):>{_COST_WIDTH}}", style)
        return text

    def _bars(self) -> Table:
        """Two lines: the whole run and the present phase."""
        elapsed = time.monotonic() - self._epoch_began
        remaining = (self._total - self._steps) / self._speed - elapsed if self._speed > 0 else math.nan
        speed = "" if math.isnan(self._speed) else f"{self._speed:,.0f} steps/s"
        grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
        grid.add_column(min_width=len(COMPILING), no_wrap=True)
        grid.add_column(ratio=1)
        for _ in range(3):
            grid.add_column(justify="right", no_wrap=True)
        grid.add_row(
            f"epoch {self._epoch + 1}",
            ProgressBar(total=self._total, completed=self._steps, complete_style="blue", finished_style="blue"),
            f"{self._steps:,}/{self._total:,}",
            speed,
            f"{_duration(remaining)} left",
        )
        grid.add_row(
            self._phase,
            ProgressBar(
                total=1.0,
                completed=self._fraction or 0.0,
                pulse=self._fraction is None,
                complete_style="cyan",
                finished_style="cyan",
                pulse_style="cyan",
            ),
            "" if self._fraction is None else f"{100 * self._fraction:.0f}%",
            "",
            f"{_duration(self._seconds + elapsed)} elapsed",
        )
        return grid


def _number(value: Any) -> str:
    if value is None:
        return "-"
    value = float(value)
    return f"{value:.1e}" if abs(value) >= 1e6 else f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}"


def _duration(seconds: float) -> str:
    return "-:--:--" if math.isnan(seconds) else str(datetime.timedelta(seconds=round(max(seconds, 0))))
