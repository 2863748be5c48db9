"""Paired differences: each a point with its 95% interval, the 90% interval thicker, the margin a band."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from matplotlib.axes import Axes

from analysis.labels import HELPS, HURTS, INCONCLUSIVE, PLATEAU
from analysis.load import Export
from analysis.plots.figures import Drawn, compared, figure, margin_said
from analysis.plots.style import COLOURS, INK, new_figure
from analysis.verdict import Verdict
from src.metrics import METRICS

LABEL_COLOURS = {HELPS: COLOURS[2], HURTS: COLOURS[1], PLATEAU: COLOURS[0], INCONCLUSIVE: COLOURS[6]}


def draw(
    table: pd.DataFrame,
    ax: Axes,
    *,
    margin: float | None,
    factor: str = "heads",
    metric: str = "val/loss",
    unit: str | None = None,
) -> Axes:
    """One row a contrast, as `analysis.labels.contrasts` gives them; the first stands at the top."""
    if margin is not None:
        ax.axvspan(-margin, margin, color=COLOURS[4], alpha=0.15, linewidth=0)
    ax.axvline(0, color=INK, linewidth=0.8)
    places = range(len(table))
    for place, row in zip(places, table.to_dict("records"), strict=True):
        colour = LABEL_COLOURS[row["label"]]
        ax.plot([row["low"], row["high"]], [place, place], color=colour, linewidth=1.2)
        ax.plot([row["low_90"], row["high_90"]], [place, place], color=colour, linewidth=3.5, solid_capstyle="butt")
        ax.plot(row["difference"], place, "D", color=colour, markersize=5)
        ax.annotate(
            f"{row['label']}  n = {row['pairs']}",
            (1.01, place),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=8,
            color=INK,
            parse_math=False,
        )
    ax.set_yticks(list(places), [f"{row.fewer} to {row.more}" for row in table.itertuples()])
    ax.set_ylim(len(table) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    better = {"lower": "below 0: more is better", "higher": "above 0: more is better"}.get(METRICS[metric].better, "")
    ax.set_xlabel(f"difference in {metric}, {unit or METRICS[metric].unit} ({better})")
    ax.set_ylabel(factor)
    return ax


@figure("contrasts", at=20)
def drawn(verdict: Verdict, export: Export) -> Iterator[Drawn]:
    table = pd.concat([verdict.contrasts, verdict.ladder], ignore_index=True)
    if table.empty:
        return
    table = table.drop_duplicates(["fewer", "more"])
    picture = new_figure(7.2, 1.3 + 0.34 * len(table))
    draw(table, picture.add_subplot(), margin=verdict.margin, **compared(verdict))
    caption = (
        f"Differences on shared seeds, each arm with {verdict.reference} and with the one before it: mean, 95% "
        f"interval (thin) and 90% interval (thick), paired t. {margin_said(verdict)}Source: {export.sentence}."
    )
    yield Drawn("contrasts", f"Pairwise contrasts of {verdict.metric}", caption, picture)
