"""The figure under the sentence: how each arm differs from the one that the sentence is about."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from analysis.load import Export
from analysis.plots.figures import Drawn, margin_said
from analysis.plots.pairs import colour_of
from analysis.plots.style import COLOURS, GRID, INK, axis_name, count_axis, legend_below, new_figure
from analysis.verdict import Verdict
from src.metrics import METRICS


def draw(verdict: Verdict, ax: Axes, beside: Any) -> Axes:
    """Each arm minus `beside`: every shared seed a dot, the mean with its simultaneous interval, the margin a band."""
    margin = verdict.margin.value
    if margin > 0:
        ax.axhspan(-margin, margin, color=COLOURS[4], alpha=0.15, linewidth=0, label="margin")
    ax.axhline(0, color=INK, linewidth=0.8)
    values = verdict.cells.values
    for arm in verdict.arms.index:
        if arm == beside:
            ax.plot(arm, 0, "D", color=INK, markersize=6)
            continue
        if beside in values:
            seeds = (values[arm] - values[beside]).dropna()
            ax.plot([arm / 2**0.06] * len(seeds), seeds, "o", color=GRID, alpha=0.6, markersize=3.5)
        pair = verdict.pair(beside, arm)
        if pair is None or pair.by != "mean" or not np.isfinite(pair.low):
            continue
        pair = pair.beside(beside)
        reach = [[pair.difference - pair.low], [pair.high - pair.difference]]
        place, colour = arm * 2**0.06, colour_of(pair)
        ax.errorbar(place, pair.difference, reach, color=colour, marker="D", markersize=6, capsize=3)
    ax.plot([], [], "o", color=GRID, markersize=3.5, label="one seed")
    ax.errorbar([], [], [], color=GRID, marker="D", capsize=3, label="mean, 95% interval of all pairs together")
    count_axis(ax, verdict.arms.index, verdict.factor)
    worse = "up is worse" if METRICS[verdict.metric].better == "lower" else "up is better"
    ax.set_ylabel(f"difference in {axis_name(verdict.metric, verdict.unit)}")
    ax.set_title(worse, fontsize=8, fontweight="normal", loc="left")
    legend_below(ax, columns=2)
    return ax


def headline(verdict: Verdict, export: Export) -> Drawn | None:
    """The figure of the opening; None where no pair of arms could be compared, or a log axis cannot hold the arms."""
    if not verdict.pairs or not all(arm > 0 for arm in verdict.arms.index):
        return None
    beside = verdict.focus if verdict.focus in verdict.arms.index else verdict.reference
    picture = new_figure(5.2, 3.7)
    ax = picture.add_subplot()
    draw(verdict, ax, beside)
    caption = (
        f"Each arm minus {verdict.factor}={beside}, seed by seed. Green is better, orange worse, blue within the "
        f"margin, grey open. {margin_said(verdict)}Source: {export.sentence}."
    )
    return Drawn(
        "headline", f"{verdict.metric} by {verdict.factor}, beside {verdict.factor}={beside}", caption, picture
    )
