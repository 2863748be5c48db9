"""Loss against a cost: each arm a point with both intervals, the frontier a line, its knee named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.findings import some
from analysis.load import Export
from analysis.plots.figures import Drawn, compared, counts_said, figure, new_axes
from analysis.plots.style import COLOURS, INK, axis_name, show_bytes, show_thousands, style_of
from analysis.verdict import Verdict


def draw(
    points: pd.DataFrame,
    ax: Axes,
    *,
    cost: str,
    metric: str = "val/loss",
    unit: str | None = None,
    factor: str = "heads",
    knee: Any = None,
) -> Axes:
    """One row an arm, as `analysis.frontier.Frontier.points`. A hollow arm is beaten by another on both axes."""
    ordered = points.sort_values("cost")
    front = ordered[ordered["on_frontier"]]
    ax.plot(front["cost"], front["value"], color=COLOURS[6], linewidth=1.0, drawstyle="steps-post", zorder=1)
    for position, (arm, row) in enumerate(points.iterrows()):
        colour, marker = style_of(position)
        x, y = row["cost"], row["value"]
        reach_x = _reach(x, row["cost_low"], row["cost_high"])
        reach_y = _reach(y, row["low"], row["high"])
        fill = colour if row["on_frontier"] else "none"
        ax.errorbar(x, y, reach_y, reach_x, color=colour, marker=marker, markerfacecolor=fill, capsize=2, zorder=3)
        name = f"{arm}, knee" if arm == knee else f"{arm}"
        ax.annotate(name, (x, y), xytext=(7, 6), textcoords="offset points", color=INK, fontsize=8, parse_math=False)
    if (ordered["cost"] > 0).all() and ordered["cost"].max() >= 4 * ordered["cost"].min():
        ax.set_xscale("log", base=2)
    if "bytes" in cost:
        show_bytes(ax.xaxis)
    elif ordered["cost"].max() >= 1000:
        show_thousands(ax.xaxis)
    ax.set_xlabel(axis_name(cost))
    ax.set_ylabel(axis_name(metric, unit))
    ax.set_title(f"points are {factor}", fontsize=8, fontweight="normal", loc="right")
    return ax


def _reach(value: float, low: float, high: float) -> list[list[float]] | None:
    return None if np.isnan(low) or low == high else [[value - low], [high - value]]


@figure("frontiers", at=50)
def drawn(verdict: Verdict, export: Export) -> Iterator[Drawn]:
    for cost, front in verdict.frontiers.items():
        price = front.points["cost"].to_numpy(dtype=float)
        if len(price) < 2 or np.ptp(price) <= 1e-9 * np.abs(price).max():
            continue
        picture, ax = new_axes()
        draw(front.points, ax, cost=cost, knee=front.knee, **compared(verdict))
        shares = some([f"{arm}: {share:.0%}" for arm, share in front.points["share"].items()], shown=16)
        caption = (
            "Means with 95% t intervals; filled points are on the frontier: no other is at least as good and as "
            f"cheap. Share of resampled seeds in which each is on it: {shares}. {counts_said(verdict)}. "
            f"Source: {export.sentence}."
        )
        yield Drawn(f"frontier_{cost.replace('/', '_')}", f"{verdict.metric} against {cost}", caption, picture)
