"""Loss against heads: every seed a dot, the mean with its 95% t interval, the margin around the reference a band."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.intervals import CONFIDENCE
from analysis.load import Export
from analysis.plots.figures import Drawn, compared, counts_said, figure, margin_said, new_axes
from analysis.plots.style import COLOURS, GRID, axis_name, count_axis, legend_below, levels
from analysis.stats import t_interval
from analysis.verdict import Verdict

_ASIDE = 2**0.06
"""Dots stand a little to the left of their count and the interval to the right, on a log axis."""


def draw(
    table: pd.DataFrame,
    ax: Axes,
    *,
    factor: str = "heads",
    metric: str = "val/loss",
    unit: str | None = None,
    reference: Any = None,
    margin: float | None = None,
) -> Axes:
    """One point a row of the table (columns: the factor, seed, the metric). Seeds of a line share a seed.

    An arm with one seed gets its dot and no interval. Raises AnalysisError for a count that is not above 0.
    """
    arms = levels(table[factor])
    values = table.pivot(index="seed", columns=factor, values=metric).reindex(columns=arms).astype(float)
    places = np.array(arms, dtype=float)
    for _, row in values.iterrows():
        ax.plot(places / _ASIDE, row, color=GRID, alpha=0.45, linewidth=0.7, marker="o", markersize=3.5, zorder=2)
    means = values.mean()
    low, high = t_interval(values.to_numpy(), CONFIDENCE)
    ax.plot(places * _ASIDE, means, color=COLOURS[0], linewidth=1.2, zorder=3)
    for place, mean, below, above in zip(places * _ASIDE, means, low, high, strict=True):
        reach = None if np.isnan(below) else [[mean - below], [above - mean]]
        ax.errorbar(place, mean, reach, color=COLOURS[0], marker="D", markersize=5, capsize=3, zorder=4)
    if reference in arms and margin is not None:
        middle = means[reference]
        ax.axhspan(middle - margin, middle + margin, color=COLOURS[4], alpha=0.15, linewidth=0, zorder=1)
        ax.axhline(middle, color=COLOURS[4], linewidth=0.9, linestyle="--", zorder=1)
    count_axis(ax, arms, factor)
    ax.set_ylabel(axis_name(metric, unit))
    _legend(ax, reference in arms and margin is not None)
    return ax


def _legend(ax: Axes, with_margin: bool) -> None:
    ax.plot([], [], color=GRID, marker="o", markersize=3.5, linewidth=0.7, label="one seed")
    ax.errorbar([], [], [], color=COLOURS[0], marker="D", markersize=5, capsize=3, label="mean, 95% t interval")
    if with_margin:
        ax.fill_between([], [], color=COLOURS[4], alpha=0.3, linewidth=0, label="margin around the reference")
    legend_below(ax)


@figure("loss", at=10)
def drawn(verdict: Verdict, export: Export) -> Iterator[Drawn]:
    picture, ax = new_axes()
    draw(verdict.cells.runs, ax, reference=verdict.reference, margin=verdict.margin.value or None, **compared(verdict))
    at = "" if verdict.common_step is None else f" at step {verdict.common_step:,}"
    caption = (
        f"Each dot is one run{at}, thin lines join runs of one seed; diamonds are means with 95% t intervals. "
        f"{counts_said(verdict)}. {margin_said(verdict)}Source: {export.sentence}."
    )
    yield Drawn("loss", f"{verdict.metric} against {verdict.factor}", caption, picture)
