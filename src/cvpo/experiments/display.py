"""What a user sees of a sweep: in a terminal a live table, elsewhere a line whenever something happens."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cvpo.experiments.status import Status, remaining_seconds
from cvpo.metric_names import cost_names

_FIRST = ("failed", "running", "waiting", "done")  # where not all rows fit, these come first
_STYLES = {"failed": "red", "running": "cyan", "waiting": "dim", "done": "green"}
_TENTHS = 10  # lines about the progress of a run, where there is no terminal


class SweepTable:
    """Shows `statuses`; call `update` whenever they may have changed."""

    def __init__(self, statuses: Sequence[Status], console: Console | None = None) -> None:
        self._statuses, self._console = statuses, console or Console()
        self._concurrency = 1
        self._shown = {status.spec.path: (status.state, status.deaths, 0) for status in statuses}
        self._live = Live(console=self._console, get_renderable=self.__rich__, refresh_per_second=2)

    def __enter__(self) -> SweepTable:
        if self._console.is_interactive:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self, concurrency: int) -> None:
        self._concurrency = concurrency
        if self._console.is_interactive:
            return
        for status in self._statuses:
            now = (status.state, status.deaths, _TENTHS * status.steps // status.spec.steps)
            before, self._shown[status.spec.path] = self._shown[status.spec.path], now
            if now != before:
                again = f", after a process died ({status.deaths})" if status.deaths != before[1] else ""
                values = [f"{name} {value}" for name, value in zip(_TITLES, _values(status), strict=True) if value]
                self.message(f"{status.spec.path}: {status.state}{again}, {', '.join(values)}")

    def message(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)

    def __rich__(self) -> Table:
        counts = [f"{sum(s.state == state for s in self._statuses)} {state}" for state in reversed(_FIRST)]
        left = remaining_seconds(self._statuses, self._concurrency)
        table = Table(title=f"{', '.join(counts)}; about {_duration(left)} left", title_justify="left")
        table.add_column("run", overflow="fold")
        table.add_column("state")
        for title in _TITLES:
            table.add_column(title, justify="right", no_wrap=True)
        room = max(self._console.height - 6, 1)  # title, head and frame
        rows = sorted(self._statuses, key=lambda status: _FIRST.index(status.state))
        rows = rows if len(rows) <= room else rows[: room - 1]
        for status in rows:
            state = Text(status.state, _STYLES[status.state])
            table.add_row(str(status.spec.path), state, *_values(status))
        if len(rows) < len(self._statuses):
            table.add_row(f"and {len(self._statuses) - len(rows)} more")
        return table


_TITLES = ("steps", "reward", "cost", "left")


def _values(status: Status) -> tuple[str, ...]:
    latest = status.latest
    cost = latest.get(cost_names("train/cost", len(status.spec.cost_limit or (0.0,)))[0])
    left = (status.spec.steps - status.steps) / status.speed if status.speed > 0 else math.nan
    ended = status.state in ("done", "failed")
    return f"{status.steps:,}", _number(latest.get("train/reward")), _number(cost), "" if ended else _duration(left)


def _number(value: Any) -> str:
    return "" if value is None else f"{float(value):.2f}"


def _duration(seconds: float) -> str:
    return "?" if math.isnan(seconds) else str(datetime.timedelta(seconds=round(max(seconds, 0.0))))
