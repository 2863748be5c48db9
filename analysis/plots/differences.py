"""Differences between arms: the opening figure, every pair with its interval, the answer over margins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from analysis.checks.sensitivity import Stretch
from analysis.load import Export
from analysis.plots.figures import Drawn, compared, figure, margin_said
from analysis.plots.style import COLOURS, GRID, INK, axis_name, count_axis, legend_below, new_figure, style_of
from analysis.rule.conclusion import Pair
from analysis.rule.sentences import p_shown
from analysis.summary import shown_pairs, shown_words
from analysis.verdict import Verdict
from src.metrics import METRICS

_BETTER, _WORSE, _ALIKE, _OPEN = COLOURS[2], COLOURS[1], COLOURS[0], COLOURS[6]


def colour_of(pair: Pair) -> str:
    if pair.direction == "open":
        return _ALIKE if pair.size == "within" else _OPEN
    return _BETTER if pair.direction == "better" else _WORSE


def draw_pairs(
    pairs: Sequence[Pair],
    ax: Axes,
    *,
    margin: float | None,
    factor: str = "heads",
    metric: str = "val/loss",
    unit: str | None = None,
) -> Axes:
    """One row a pair, the first at the top; a pair compared by rank has no point, its words say what is shown."""
    if margin:
        ax.axvspan(-margin, margin, color=COLOURS[4], alpha=0.15, linewidth=0)
    ax.axvline(0, color=INK, linewidth=0.8)
    for place, pair in enumerate(pairs):
        if pair.by == "mean":
            ax.plot([pair.low, pair.high], [place, place], color=colour_of(pair), linewidth=1.6)
            ax.plot(pair.difference, place, "D", color=colour_of(pair), markersize=5)
        ax.annotate(
            f"{shown_words(pair)}, p = {p_shown(pair.p)}".replace("p = <", "p <"),
            (1.01, place),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=8,
            color=INK,
            parse_math=False,
        )
    ax.set_yticks(range(len(pairs)), [f"{pair.earlier} to {pair.later}" for pair in pairs])
    ax.set_ylim(len(pairs) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    better = {"lower": "below 0: more is better", "higher": "above 0: more is better"}.get(METRICS[metric].better, "")
    ax.set_xlabel(f"difference in {metric}, {unit or METRICS[metric].unit} ({better})")
    ax.set_ylabel(factor)
    return ax


@figure("pairs", at=20)
def pairs_figure(verdict: Verdict, export: Export) -> Iterator[Drawn]:
    pairs = [pair for pair in shown_pairs(verdict) if pair.by != "nothing"]
    if not pairs:
        return
    picture = new_figure(8.2, 1.3 + 0.3 * len(pairs))
    draw_pairs(pairs, picture.add_subplot(), margin=verdict.margin.value, **compared(verdict))
    seeds = sorted({pair.seeds for pair in pairs})
    n = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    assert verdict.conclusion is not None
    caption = (
        f"Mean differences with 95% intervals ({verdict.conclusion.method}), n = {n} seeds; the words are read off the "
        f"intervals, p is the one that decides. {margin_said(verdict)}Source: {export.sentence}."
    )
    yield Drawn("pairs", f"Every pair of {verdict.factor}: differences of {verdict.metric}", caption, picture)


# The figure under the sentence: how each arm differs from the one that the sentence is about.
def draw_differences(verdict: Verdict, ax: Axes, beside: Any) -> Axes:
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
    draw_differences(verdict, ax, beside)
    caption = (
        f"Each arm minus {verdict.factor}={beside}, seed by seed. Green is better, orange worse, blue within the "
        f"margin, grey open. {margin_said(verdict)}Source: {export.sentence}."
    )
    return Drawn(
        "headline", f"{verdict.metric} by {verdict.factor}, beside {verdict.factor}={beside}", caption, picture
    )


# A strip: the answer as the margin runs over a range.
def draw_other_margins(stretches: tuple[Stretch, ...], ax: Axes, *, margin: float, unit: str) -> Axes:
    """One bar a stretch of margins, its answer inside where it fits and in the legend always."""
    bounded = [stretch.high for stretch in stretches if stretch.high is not None]
    reach = 1.15 * max([*bounded, margin, 1e-12])
    seen: dict[str, str] = {}
    drawn_words: set[str] = set()
    for stretch in stretches:
        words = stretch.answer.replace("_", " ") + ("" if stretch.at is None else f" {stretch.at}")
        colour = seen.setdefault(words, style_of(len(seen))[0])
        high = reach if stretch.high is None else stretch.high
        label = words if words not in drawn_words else "_"
        drawn_words.add(words)
        ax.barh(0, high - stretch.low, left=stretch.low, color=colour, alpha=0.75, height=0.8, label=label)
    if margin > 0:
        ax.axvline(margin, color=INK, linewidth=2)
    ax.set_xlim(0, reach)
    ax.set_yticks([])
    ax.grid(False)
    ax.set_xlabel(f"margin ({unit}); the line is the one used")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2)
    return ax


@figure("other margins", at=25)
def other_margins_figure(verdict: Verdict, export: Export) -> Iterator[Drawn]:
    if len(verdict.sensitivity) < 2:
        return
    picture = new_figure(6.4, 1.9)
    draw_other_margins(verdict.sensitivity, picture.add_subplot(), margin=verdict.margin.value, unit=verdict.unit)
    caption = f"What the same runs would answer at another margin. Source: {export.sentence}."
    yield Drawn("other_margins", "The answer over margins", caption, picture)
