"""Loss against heads: every seed a dot, means with 95% t intervals, the margin a band; and heads x learning rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from analysis.compare import LEARNING_RATE
from analysis.load import FINISHED, Export
from analysis.plots.figures import Drawn, compared, counts_said, figure, margin_said, new_axes
from analysis.plots.style import COLOURS, GRID, INK, axis_name, count_axis, legend_below, levels, new_figure
from analysis.question import has_learning_rates
from analysis.rule.intervals import CONFIDENCE
from analysis.stats import t_interval
from analysis.verdict import Verdict
from src.metrics import METRICS

_ASIDE = 2**0.06
"""Dots stand a little to the left of their count and the interval to the right, on a log axis."""


def draw_loss(
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
def loss_figure(verdict: Verdict, export: Export) -> Iterator[Drawn]:
    picture, ax = new_axes()
    draw_loss(
        verdict.cells.runs, ax, reference=verdict.reference, margin=verdict.margin.value or None, **compared(verdict)
    )
    at = "" if verdict.common_step is None else f" at step {verdict.common_step:,}"
    caption = (
        f"Each dot is one run{at}, thin lines join runs of one seed; diamonds are means with 95% t intervals. "
        f"{counts_said(verdict)}. {margin_said(verdict)}Source: {export.sentence}."
    )
    yield Drawn("loss", f"{verdict.metric} against {verdict.factor}", caption, picture)


# Heads x learning rate: the mean loss of each cell, the best of each head count framed.
MAP_COLOURS = "cividis"
FRAME = "#d55e00"


def draw_learning_rates(table: pd.DataFrame, ax: Axes, *, factor: str = "heads", metric: str = "val/loss") -> Axes:
    """One cell an arm and learning rate: the mean over its runs, and how many those are. A missing cell is empty."""
    arms, rates = levels(table[factor]), levels(table[LEARNING_RATE])
    grouped = table.groupby([factor, LEARNING_RATE])[metric]
    means = grouped.mean().unstack().reindex(index=arms, columns=rates).astype(float)
    counts = grouped.count().unstack().reindex(index=arms, columns=rates).fillna(0).astype(int)
    words = [
        [f"{mean:.4g}\nn = {n}" if np.isfinite(mean) else "" for mean, n in zip(*row, strict=True)]
        for row in zip(means.to_numpy(), counts.to_numpy(), strict=True)
    ]
    bar = {"label": axis_name(metric)}
    sns.heatmap(means, ax=ax, cmap=MAP_COLOURS, annot=np.array(words), fmt="", annot_kws={"fontsize": 8}, cbar_kws=bar)
    finite = means.dropna(how="all")
    best = finite.idxmin(axis=1) if METRICS[metric].better == "lower" else finite.idxmax(axis=1)
    for arm, rate in best.items():
        corner = rates.index(rate) + 0.03, arms.index(arm) + 0.03
        ax.add_patch(Rectangle(corner, 0.94, 0.94, fill=False, edgecolor=FRAME, linewidth=2))
    ax.set_xticks(np.arange(len(rates)) + 0.5, [f"{rate:g}" for rate in rates])
    ax.set_yticks(np.arange(len(arms)) + 0.5, [f"{arm}" for arm in arms], rotation=0)
    ax.set_xlabel(LEARNING_RATE.removeprefix("config."))
    ax.set_ylabel(factor)
    ax.tick_params(length=0, colors=INK)
    ax.grid(False)
    return ax


@figure("learning rates", at=20, spans=True)
def learning_rates_figure(export: Export, factor: str, metric: str) -> Iterator[Drawn]:
    if not has_learning_rates(export.runs, factor):
        return
    runs = export.runs[(export.runs["status"] == FINISHED) & np.isfinite(export.runs[metric].astype(float))]
    picture = new_figure(1.8 + 1.1 * runs[LEARNING_RATE].nunique(), 1.2 + 0.6 * runs[factor].nunique())
    draw_learning_rates(runs, picture.add_subplot(), factor=factor, metric=metric)
    caption = f"Mean over finished runs, n in each cell; the best of each row is framed. Source: {export.sentence}."
    yield Drawn("learning_rates", f"{metric} by {factor} and learning rate", caption, picture)
