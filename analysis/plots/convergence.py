"""The gap over training: whether a difference was still changing when the runs ended."""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.axes import Axes

from analysis.convergence import Convergence
from analysis.load import Export
from analysis.plots.figures import Drawn, figure, margin_said, new_axes
from analysis.plots.style import COLOURS, INK, axis_name, show_thousands
from analysis.verdict import Verdict

_LATE = 0.25


def draw(progress: Convergence, ax: Axes, *, margin: float | None = None, unit: str | None = None) -> Axes:
    """The mean difference of the two arms at each evaluation, with its band; the first quarter is left out."""
    gap = progress.gap[progress.gap["step"] >= _LATE * progress.gap["step"].max()]
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
def drawn(verdict: Verdict, export: Export) -> Iterator[Drawn]:
    progress = verdict.convergence
    if progress is None:
        return
    picture, ax = new_axes()
    draw(progress, ax, margin=verdict.margin.value, unit=verdict.unit)
    flagged = progress.flagged(verdict.margin.value)
    said = f"This {flagged}. " if flagged else "It is not seen to shrink, and the loss has settled to the margin. "
    caption = (
        f"Difference on shared seeds at each evaluation (n = {progress.gap['n'].iloc[0]}), with the pointwise 95% t "
        f"interval; the first quarter of training is left out. {said}{margin_said(verdict)}Source: {export.sentence}."
    )
    title = f"The gap between {progress.earlier} and {progress.later} {verdict.factor} over training"
    yield Drawn("convergence", title, caption, picture)
