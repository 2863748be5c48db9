"""Heads x learning rate: the mean loss of each cell, the best of each head count framed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from analysis.load import FINISHED, Export
from analysis.plots.figures import Drawn, figure
from analysis.plots.style import INK, axis_name, levels, new_figure
from analysis.question import has_learning_rates
from analysis.tuning import LEARNING_RATE
from src.metrics import METRICS

COLOURS = "cividis"
FRAME = "#d55e00"


def draw(table: pd.DataFrame, ax: Axes, *, factor: str = "heads", metric: str = "val/loss") -> Axes:
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
    sns.heatmap(means, ax=ax, cmap=COLOURS, annot=np.array(words), fmt="", annot_kws={"fontsize": 8}, cbar_kws=bar)
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
def drawn(export: Export, factor: str, metric: str) -> Iterator[Drawn]:
    if not has_learning_rates(export.runs, factor):
        return
    runs = export.runs[(export.runs["status"] == FINISHED) & np.isfinite(export.runs[metric].astype(float))]
    picture = new_figure(1.8 + 1.1 * runs[LEARNING_RATE].nunique(), 1.2 + 0.6 * runs[factor].nunique())
    draw(runs, picture.add_subplot(), factor=factor, metric=metric)
    caption = f"Mean over finished runs, n in each cell; the best of each row is framed. Source: {export.sentence}."
    yield Drawn("learning_rates", f"{metric} by {factor} and learning rate", caption, picture)
