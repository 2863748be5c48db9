"""All pairs of arms: each difference a point with its simultaneous interval, the margin a band."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes

from analysis.conclusion import Pair
from analysis.load import Export
from analysis.numbers import p_shown
from analysis.plots.figures import Drawn, compared, figure, margin_said
from analysis.plots.style import COLOURS, INK, new_figure
from analysis.summary import shown_pairs, shown_words
from analysis.verdict import Verdict
from src.metrics import METRICS

_BETTER, _WORSE, _ALIKE, _OPEN = COLOURS[2], COLOURS[1], COLOURS[0], COLOURS[6]


def colour_of(pair: Pair) -> str:
    if pair.direction == "open":
        return _ALIKE if pair.size == "within" else _OPEN
    return _BETTER if pair.direction == "better" else _WORSE


def draw(
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
def drawn(verdict: Verdict, export: Export) -> Iterator[Drawn]:
    pairs = [pair for pair in shown_pairs(verdict) if pair.by != "nothing"]
    if not pairs:
        return
    picture = new_figure(8.2, 1.3 + 0.3 * len(pairs))
    draw(pairs, picture.add_subplot(), margin=verdict.margin.value, **compared(verdict))
    seeds = sorted({pair.seeds for pair in pairs})
    n = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    assert verdict.conclusion is not None
    caption = (
        f"Mean differences with 95% intervals ({verdict.conclusion.method}), n = {n} seeds; the words are read off the "
        f"intervals, p is the one that decides. {margin_said(verdict)}Source: {export.sentence}."
    )
    yield Drawn("pairs", f"Every pair of {verdict.factor}: differences of {verdict.metric}", caption, picture)
