"""Loss over training, a line an arm with a named band; and the gap between two arms over training."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.cells import TOKENS
from analysis.checks.convergence import Convergence
from analysis.load import Export
from analysis.plots.figures import Drawn, counts_said, figure, margin_said, new_axes
from analysis.plots.style import COLOURS, INK, axis_name, levels, show_thousands, style_of
from analysis.rule.intervals import CONFIDENCE
from analysis.stats import t_interval
from analysis.verdict import Verdict

BAND = "95% t interval of the mean over seeds"
_LATE = 0.25


def draw_learning_curves(
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
def learning_curves_figure(verdict: Verdict, export: Export) -> Iterator[Drawn]:
    steps = export.steps.merge(verdict.cells.runs[["run_id", verdict.factor]], on="run_id")
    metric = "val/loss" if verdict.metric.startswith("val/") else verdict.metric
    if metric not in steps or steps.dropna(subset=[metric]).groupby("run_id").size().max() < 3:
        metric = "train/loss"
    x = TOKENS if TOKENS in steps and steps[TOKENS].notna().any() else "step"
    if metric not in steps or steps.dropna(subset=[metric]).empty:
        return
    picture, ax = new_axes()
    draw_learning_curves(steps.dropna(subset=[x]), ax, factor=verdict.factor, metric=metric, unit=verdict.unit, x=x)
    caption = (
        f"Mean over the runs of each arm, where all of them have a number; bands are the {BAND}; the steep first "
        f"quarter runs above the frame. {counts_said(verdict)}. Source: {export.sentence}."
    )
    yield Drawn("learning_curves", f"{metric} over training", caption, picture)


# The gap over training: whether a difference was still changing when the runs ended.
_CONVERGENCE_LATE = 0.25


def draw_convergence(progress: Convergence, ax: Axes, *, margin: float | None = None, unit: str | None = None) -> Axes:
    """The mean difference of the two arms at each evaluation, with its band; the first quarter is left out."""
    gap = progress.gap[progress.gap["step"] >= _CONVERGENCE_LATE * progress.gap["step"].max()]
    if margin:
        ax.axhspan(-margin, margin, color=COLOURS[4], alpha=0.15, linewidth=0)
    ax.axhline(0, color=INK, linewidth=0.8)
    ax.fill_between(gap["step"], gap["low"], gap["high"], color=COLOURS[0], alpha=0.2, linewidth=0)
    ax.plot(gap["step"], gap["difference"], color=COLOURS[0], marker="o", markersize=4)
    show_thousands(ax.xaxis)
    ax.set_xlabel("step")
    ax.set_ylabel(f"{axis_name(progress.metric, unit)}, {progress.later} minus {progress.earlier}")
    return ax


@figure("convergence", at=35)
def convergence_figure(verdict: Verdict, export: Export) -> Iterator[Drawn]:
    progress = verdict.convergence
    if progress is None:
        return
    picture, ax = new_axes()
    draw_convergence(progress, ax, margin=verdict.margin.value, unit=verdict.unit)
    flagged = progress.flagged(verdict.margin.value)
    said = f"This {flagged}. " if flagged else "It is not seen to shrink, and the loss has settled to the margin. "
    caption = (
        f"Difference on shared seeds at each evaluation (n = {progress.gap['n'].iloc[0]}), with the pointwise 95% t "
        f"interval; the first quarter of training is left out. {said}{margin_said(verdict)}Source: {export.sentence}."
    )
    title = f"The gap between {progress.earlier} and {progress.later} {verdict.factor} over training"
    yield Drawn("convergence", title, caption, picture)
