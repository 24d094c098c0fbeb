"""How figures look: one colour for each method throughout a report, one way to lay out and to save."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

INK = "#333333"
PAGE_WIDTH = 11.5
"""Inches that the axes of a figure may take side by side."""
MAX_COLUMNS = 6
LABELS = 0.58
"""Inches for numbers and a name beside an axis."""
FAR = 5.0
"""Costs beyond this many limits make an axis logarithmic."""
LIMIT: dict[str, Any] = {"color": INK, "linestyle": (0, (4, 2.5)), "linewidth": 1.1, "zorder": 1.9}
# Okabe and Ito's colours, which the colour-blind tell apart, with wine for yellow, which vanishes on white;
# then some of Tol's.
_COLORS = (
    "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#882255", "#56B4E9", "#444444", "#999933", "#332288",
)  # fmt: skip
# The same hues for a dark page.
_DARK_COLORS = (
    "#58B4EA", "#FF8A3D", "#2FCB9B", "#F0B93D", "#E6A3CA", "#E0709F", "#8FD3FF", "#BBBBBB", "#C9C95A", "#A79BF0",
)  # fmt: skip
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)))
_CANVAS_DASHES: tuple[tuple[int, ...], ...] = ((), (8, 3), (2, 3), (8, 3, 2, 3))
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "text.parse_math": False,  # a name with dollars in it is a name
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.5,
    "legend.frameon": False,
    "svg.hashsalt": "cvpo",  # the same figure gives the same file
}


class Look(NamedTuple):
    color: str
    dashes: Any
    dark: str  # its colour on a dark page
    canvas_dash: tuple[int, ...]  # its dashes on the page, in pixels


def looks(methods: Sequence[str]) -> dict[str, Look]:
    """A look for each method, to be kept in all figures of a report."""
    # Variants last: whether they are there or not, the plain methods look the same.
    ordered = sorted(methods, key=lambda method: "(" in method)
    count = len(_COLORS)
    found = {}
    for i, method in enumerate(ordered):
        color, dash = i % count, i // count % len(_DASHES)
        found[method] = Look(_COLORS[color], _DASHES[dash], _DARK_COLORS[color], _CANVAS_DASHES[dash])
    return found


@contextmanager
def styled() -> Iterator[None]:
    with mpl.rc_context(_STYLE):
        yield


def grid_of_axes(
    rows: int, columns: int, *, width: float = 2.3, height: float = 1.9, labels: float | None = None
) -> tuple[Figure, list[list[Axes]]]:
    """A figure and its rows x columns axes, each with its surroundings of the given size in inches.

    labels: what the first column's labels need, if they are long and the other columns have none.
    """
    margin = LABELS if labels is None else labels
    size = (max(min(columns * width, PAGE_WIDTH), 4.2) + margin - LABELS, rows * height)
    figure = Figure(figsize=size)
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
    gap = LABELS + 0.05 if labels is None else 0.2
    _arrange(figure, left=margin, between=gap)
    return figure, [list(row) for row in axes]


def _arrange(figure: Figure, *, left: float, between: float, top: float = 0.0) -> None:
    """Place the axes by the room, in inches, that labels need. Matplotlib's own layouts take longer than drawing."""
    rows, columns = figure.axes[0].get_gridspec().get_geometry()  # type: ignore[union-attr]
    width, height = figure.get_size_inches()
    figure.subplots_adjust(
        left=left / width,
        right=1.0 - 0.12 / width,
        bottom=0.45 / height,
        top=1.0 - (0.28 + top) / height,
        wspace=between * columns / max(width - left - 0.12 - between * (columns - 1), 0.1),
        hspace=0.64 * rows / max(height - top - 0.73 - 0.64 * (rows - 1), 0.1),
    )


def columns_of_axes(
    count: int, rows: int, *, height: float = 1.9, labels: float | None = None
) -> tuple[Figure, list[list[Axes]]]:
    """A figure and its `count` columns of `rows` axes; columns that a page has no room for go below the others."""
    across = min(count, MAX_COLUMNS)
    figure, axes = grid_of_axes(rows * math.ceil(count / across), across, height=height, labels=labels)
    columns: list[list[Axes]] = []
    for block in range(0, len(axes), rows):
        for column in range(across):
            column_axes = [axes[block + row][column] for row in range(rows)]
            if len(columns) < count:
                columns.append(column_axes)
            else:
                for unused in column_axes:
                    unused.remove()
    return figure, columns


def add_legend(figure: Figure, methods: Sequence[str], looks: dict[str, Look], limit: bool) -> None:
    """Name the methods above the axes."""
    handles = [Line2D([], [], color=looks[m].color, linestyle=looks[m].dashes, linewidth=2) for m in methods]
    labels = list(methods)
    if limit:
        handles.append(Line2D([], [], **LIMIT))
        labels.append("cost limit")
    legend_above(figure, handles, labels)


def legend_above(figure: Figure, handles: Sequence[Artist], labels: Sequence[str], title: str | None = None) -> None:
    """A legend in additional height above the axes."""
    # as many columns as the width holds: about 15 characters to the inch, and 5 for the line
    longest = max(map(len, labels)) + 5
    columns = max(1, min(len(labels), int(figure.get_figwidth() * 15 / longest)))
    lines = math.ceil(len(labels) / columns) + (title is not None)
    height = 0.05 + 0.2 * lines
    figure.set_figheight(figure.get_figheight() + height)
    _arrange(figure, left=LABELS, between=LABELS + 0.05, top=height)
    figure.legend(
        handles,
        labels,
        title=title,
        title_fontsize=11,
        loc="upper center",
        ncols=columns,
        handlelength=1.8,
        columnspacing=1.4,
        borderaxespad=0.2,
    )


def cost_axis(axes: Axes, limit: float, *, vertical: bool = False) -> None:
    """Draw the limit across an axis of costs that start at 0; call it when all else is drawn.

    Where costs go far beyond the limit, the axis is logarithmic above twice the limit, or what matters would be tiny.
    """
    low, high = (axes.dataLim.x0, axes.dataLim.x1) if vertical else (axes.dataLim.y0, axes.dataLim.y1)
    axis, set_scale, set_range, draw = (
        (axes.xaxis, axes.set_xscale, axes.set_xlim, axes.axvline)
        if vertical
        else (axes.yaxis, axes.set_yscale, axes.set_ylim, axes.axhline)
    )
    if not math.isfinite(limit):
        set_range(min(low, 0.0), None)
        return
    draw(limit, label="limit", **LIMIT)
    high = max(high, limit)
    if limit > 0 and high > FAR * limit and low >= 0:
        set_scale("symlog", linthresh=2 * limit, linscale=1.0)
        multiples = [0.0, 1.0, *(m * 10.0**power for power in range(9) for m in (2, 5, 10))]
        axis.set_major_locator(FixedLocator([m * limit for m in multiples if m * limit < 1.1 * high]))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
        set_range(0.0, 1.1 * high)
    else:
        axis.set_major_locator(MaxNLocator(5))
        set_range(min(low, 0.0), high + 0.05 * (high - min(low, 0.0)))


def label_steps(axes: Axes) -> None:
    axes.set_xlabel("environment steps")
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    axes.set_xlim(left=0)


def label_reward(axes: Axes) -> None:
    axes.set_ylabel("reward")
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))


def short_number(value: float) -> str:
    """1500000 as "1.5M"."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def rendered(figure: Figure, formats: Sequence[str]) -> dict[str, bytes]:
    """The figure as the bytes of a file in each format; `Figure.savefig` would draw it twice for each."""
    figure.set_dpi(160)
    files = {}
    for name in formats:
        buffer = io.BytesIO()
        if name == "png":
            FigureCanvasAgg(figure).print_png(buffer)
        elif name == "svg":
            FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None})
        else:
            FigureCanvasPdf(figure).print_pdf(buffer, metadata={"CreationDate": None})
        files[name] = buffer.getvalue()
    return files
