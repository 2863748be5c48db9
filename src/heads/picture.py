"""The numbers of a run's heads as one picture: a panel a number, a row a layer, a column a head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import Normalize, SymLogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from src.heads.measure.ablation import FREE
from src.heads.measure.patterns import SCORES
from src.heads.measure.roles import WORDS
from src.heads.report import HeadsReport

if TYPE_CHECKING:
    from jaxtyping import Float
    from matplotlib.axes import Axes

COLOURS = "cividis"  # even in lightness and alike to every kind of colour vision
COLUMNS = 4
WRITTEN_UP_TO = 64
"""Cells of a panel that have their number written in."""
TITLES = {
    "previous_token": "previous token",
    "first_token": "first token (sink)",
    "same_token": "same token",
    "duplicate_token": "duplicate token",
    "induction": "induction",
    "entropy": "entropy / uniform",
    "pattern_similarity": "pattern similarity, nearest",
    "output_similarity": "output similarity, nearest",
    "qk_rank": "QK rank / width",
    "ov_rank": "OV rank / width",
    "zero_ablation": "loss without it (zero)",
    "mean_ablation": "loss without it (mean)",
}


def draw_roles(report: HeadsReport, layer: int | None = None) -> Figure:
    """One small panel a number; a head whose role a score names is framed and named in that score's panel."""
    g, rows = report.geometry, report.rows(layer)
    layers = list(range(g.layers)) if layer is None else [layer]
    shown = [name for name in TITLES if any(row[name] is not None for row in rows)]
    lines = -(-len(shown) // COLUMNS)
    width, height = max(2.6, 0.34 * g.heads + 0.9), max(1.5, 0.34 * len(layers) + 1.0)
    figure = Figure(figsize=(COLUMNS * width, lines * height + 0.9), layout="constrained", dpi=130)
    panels = figure.subplots(lines, COLUMNS, squeeze=False)
    for axes in panels.flat[len(shown) :]:
        axes.set_visible(False)
    for place, (name, axes) in enumerate(zip(shown, panels.flat, strict=False)):
        values = np.array([[np.nan if row[name] is None else row[name]] for row in rows], dtype=float)
        _panel(axes, values.reshape(len(layers), g.heads), name)
        _name_axes(axes, layers, g.heads, g.kv_heads, is_first=place % COLUMNS == 0)
        for row in rows:
            if row["role"] == name:
                _frame(axes, layers.index(row["layer"]), row["head"])
    figure.suptitle(report.name, fontsize=10, parse_math=False)
    figure.supxlabel(_caption(report, rows), fontsize=8, parse_math=False)
    return figure


def _panel(axes: Axes, values: Float[np.ndarray, "L H"], name: str) -> None:
    is_cost = name.endswith("ablation")
    highest = max(float(np.nanmax(np.abs(values))), FREE) if is_cost else 1.0
    norm = SymLogNorm(FREE, vmin=0.0, vmax=highest) if is_cost else Normalize(0.0, 1.0)
    axes.set_facecolor("0.85")
    image = axes.imshow(np.ma.masked_invalid(values), cmap=COLOURS, norm=norm, aspect="auto", interpolation="nearest")
    axes.set_title(TITLES[name], fontsize=9, pad=4)
    if values.size > WRITTEN_UP_TO:
        bar = axes.figure.colorbar(image, ax=axes, fraction=0.06, pad=0.03)
        bar.ax.tick_params(labelsize=6)
        return
    for (layer, head), value in np.ndenumerate(values):
        if np.isfinite(value):
            dark = float(norm(max(value, 0.0))) < 0.55
            axes.text(head, layer, _written(value, is_cost), ha="center", va="center", fontsize=6.5,
                      color="white" if dark else "black")  # fmt: skip


def _written(value: float, is_cost: bool) -> str:
    """A number of few characters.

    >>> _written(0.5, False), _written(0.00042, True), _written(-0.0001, True), _written(8.977, True)
    ('.50', '.0004', '-.0001', '9.0')
    """
    if not is_cost:
        return f"{value:.2f}".removeprefix("0") if value < 0.995 else "1.0"
    text = f"{value:.1f}" if abs(value) >= 1 else f"{value:.4f}" if abs(value) < 0.01 else f"{value:.2f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def _name_axes(axes: Axes, layers: Sequence[int], heads: int, kv_heads: int, *, is_first: bool) -> None:
    step = -(-heads // 16)
    group = heads // kv_heads
    ticks = range(0, heads, step)
    names = [f"{head}\nkv {head // group}" if kv_heads != heads and head % group == 0 else str(head) for head in ticks]
    axes.set_xticks(ticks, names, fontsize=7)
    axes.set_yticks(range(len(layers)), [str(layer) for layer in layers], fontsize=7)
    axes.tick_params(length=0, pad=2)
    axes.set_xlabel("head", fontsize=7, labelpad=1)
    if is_first:
        axes.set_ylabel("layer", fontsize=8)
    if kv_heads != heads:
        for edge in range(group, heads, group):
            axes.axvline(edge - 0.5, color="white", linewidth=1.5)


def _frame(axes: Axes, layer: int, head: int) -> None:
    axes.add_patch(Rectangle((head - 0.46, layer - 0.46), 0.92, 0.92, fill=False, edgecolor="#D55E00", linewidth=2))


def _caption(report: HeadsReport, rows: list[dict[str, object]]) -> str:
    named = sum(row["role"] is not None for row in rows)
    words = ", ".join(WORDS[score] for score in SCORES)
    roles = "no roles: the data holds no tokens" if report.null is None else (
        f"orange frame: the score that names a head's role ({named} of {len(rows)} heads; {words}), above all heads of "
        f"{report.null.models} random models"
    )  # fmt: skip
    return (
        f"{roles}\nscores on {report.probes} repeated random texts, the rest on {report.sequences} held-out sequences; "
        f"loss without a head: {report.unit} above {report.loss:.4f}"
    )
