"""Loss over training: a line an arm, with a named band, where all of an arm's runs have a number."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.cells import TOKENS
from analysis.intervals import CONFIDENCE
from analysis.load import Export
from analysis.plots.figures import Drawn, counts_said, figure, new_axes
from analysis.plots.style import axis_name, levels, show_thousands, style_of
from analysis.stats import t_interval
from analysis.verdict import Verdict

BAND = "95% t interval of the mean over seeds"
_LATE = 0.25


def draw(
    table: pd.DataFrame,
    ax: Axes,
    *,
    factor: str = "heads",
    metric: str = "val/loss",
    unit: str | None = None,
    x: str = "train/tokens",
) -> Axes:
    """One row a run and point (columns: the factor, run_id, x, the metric).

    A mean is drawn only where every run of the arm has a finite number, so no curve jumps because a run ended.
    One run gets its line and no band. The frame leaves out the steep first quarter of training.
    """
    lowest, highest = [], []
    for position, arm in enumerate(levels(table[factor])):
        own = table[(table[factor] == arm) & table[metric].notna()]
        curves = own.pivot_table(index=x, columns="run_id", values=metric, aggfunc="last").dropna()
        if curves.empty:
            continue
        colour, marker = style_of(position)
        values = curves.to_numpy(dtype=float)
        n = values.shape[1]
        ax.plot(curves.index, values.mean(axis=1), color=colour, marker=marker, markersize=4, linewidth=1.2,
                markevery=max(1, len(curves) // 12), label=f"{arm} (n = {n})")  # fmt: skip
        if n > 1:
            low, high = t_interval(values.T, CONFIDENCE)
            ax.fill_between(curves.index, low, high, color=colour, alpha=0.15, linewidth=0)
        late = curves.index.to_numpy(dtype=float) >= _LATE * float(table[x].max())
        if late.any():
            lowest.append(values[late].min())
            highest.append(values[late].max())
    if lowest and np.isfinite([*lowest, *highest]).all() and max(highest) > min(lowest):
        room = 0.05 * (max(highest) - min(lowest))
        ax.set_ylim(min(lowest) - room, max(highest) + room)
    ax.set_xlabel(axis_name(x))
    ax.set_ylabel(axis_name(metric, unit))
    show_thousands(ax.xaxis)
    ax.legend(title=factor, ncols=2)
    return ax


@figure("learning curves", at=30)
def drawn(verdict: Verdict, export: Export) -> Iterator[Drawn]:
    steps = export.steps.merge(verdict.cells.runs[["run_id", verdict.factor]], on="run_id")
    metric = "val/loss" if verdict.metric.startswith("val/") else verdict.metric
    if metric not in steps or steps.dropna(subset=[metric]).groupby("run_id").size().max() < 3:
        metric = "train/loss"
    x = TOKENS if TOKENS in steps and steps[TOKENS].notna().any() else "step"
    if metric not in steps or steps.dropna(subset=[metric]).empty:
        return
    picture, ax = new_axes()
    draw(steps.dropna(subset=[x]), ax, factor=verdict.factor, metric=metric, unit=verdict.unit, x=x)
    caption = (
        f"Mean over the runs of each arm, where all of them have a number; bands are the {BAND}; the steep first "
        f"quarter runs above the frame. {counts_said(verdict)}. Source: {export.sentence}."
    )
    yield Drawn("learning_curves", f"{metric} over training", caption, picture)
