"""A strip: the answer as the margin runs over a range."""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.axes import Axes

from analysis.load import Export
from analysis.plots.figures import Drawn, figure
from analysis.plots.style import INK, new_figure, style_of
from analysis.sensitivity import Stretch
from analysis.verdict import Verdict


def draw(stretches: tuple[Stretch, ...], ax: Axes, *, margin: float, unit: str) -> Axes:
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
def drawn(verdict: Verdict, export: Export) -> Iterator[Drawn]:
    if len(verdict.sensitivity) < 2:
        return
    picture = new_figure(6.4, 1.9)
    draw(verdict.sensitivity, picture.add_subplot(), margin=verdict.margin.value, unit=verdict.unit)
    caption = f"What the same runs would answer at another margin. Source: {export.sentence}."
    yield Drawn("other_margins", "The answer over margins", caption, picture)
