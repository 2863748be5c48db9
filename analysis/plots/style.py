"""How every plot looks: colours that all eyes tell apart, axes at the counts that ran, numbers as people read them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator, StrMethodFormatter

from analysis.findings import AnalysisError
from src.metrics import METRICS, bytes_shown

INK = "#1f2328"
"""The colour of text and axes; nothing else has it, so that a page can put its own in its place."""
GRID = "#8c959f"
COLOURS = ("#0173b2", "#d55e00", "#029e73", "#cc78bc", "#de8f05", "#56b4e9", "#949494", "#ca9161")
"""Okabe and Ito's, as seaborn's 'colorblind' palette has them; legible on white and on black."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
KINDS = {"MHA": 0, "GQA": 1, "MQA": 2, "MLA": 3}
"""Attention kinds have one colour and marker each, in every plot."""

_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "headcount",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.labelsize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}


def looks() -> AbstractContextManager[None]:
    """The settings under which figures are made and saved; the caller's own are put back."""
    return mpl.rc_context(_SETTINGS)  # pyright: ignore[reportArgumentType]


def new_figure(width: float = 6.4, height: float = 4.0) -> Figure:
    """An empty figure, in inches. It belongs to nobody: no window, no global list of figures."""
    return Figure(figsize=(width, height), layout="constrained")


def style_of(position: int) -> tuple[str, str]:
    """Colour and marker of the n-th level; they repeat after eight, never both at once before."""
    return COLOURS[position % len(COLOURS)], MARKERS[position % len(MARKERS)]


def count_axis(ax: Axes, counts: Iterable[Any], name: str) -> None:
    """A log-2 x axis with ticks at exactly these counts. Raises AnalysisError for counts that it cannot hold."""
    places = sorted({float(count) for count in counts})
    if any(place <= 0 for place in places):
        raise AnalysisError(f"{name} holds {min(places):g}; a log axis of counts needs values above 0")
    ax.set_xscale("log", base=2)
    ax.set_xticks(places, [f"{place:g}" for place in places])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlim(places[0] / 2**0.5, places[-1] * 2**0.5)
    ax.set_xlabel(axis_name(name))


def axis_name(name: str, unit: str | None = None) -> str:
    """A column as an axis names it: the same word, with its unit where it is a metric.

    >>> axis_name("kv_heads"), axis_name("val/loss"), axis_name("cost/parameters")
    ('kv_heads', 'val/loss (nats/token)', 'cost/parameters')
    """
    if unit is None:
        unit = METRICS[name].unit if name in METRICS else "1"
    return name if unit == "1" or name.startswith("cache/") or unit == "bytes" else f"{name} ({unit})"


def show_bytes(axis: Any) -> None:
    """Bytes on an axis in KiB, MiB and GiB."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: bytes_shown(value, digits=3)))


def show_thousands(axis: Any) -> None:
    """Large whole numbers on an axis with commas."""
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def legend_below(ax: Axes, columns: int = 3) -> None:
    """A legend under the axes, where it hides no point."""
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=columns)


def levels(column: pd.Series) -> list[Any]:
    """The values that are there, in numeric order: what a legend may hold."""
    return sorted(column.dropna().unique().tolist())


def caption_below(figure: Figure, caption: str) -> None:
    """Writes a caption under a figure, in lines that fit its width."""
    width = int(figure.get_figwidth() * 17)
    text = "\n".join(textwrap.wrap(caption, width))
    figure.supxlabel(text, x=0.01, ha="left", fontsize=7.5, parse_math=False)


def save(figure: Figure, folder: Path, name: str, formats: Sequence[str] = ("svg", "png")) -> list[Path]:
    """Writes the figure in each format; the same figure gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{ending}" for ending in formats]
    for path in paths:
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(path, dpi=150, facecolor="white", metadata=metadata)
    return paths
