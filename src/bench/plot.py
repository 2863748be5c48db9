"""Decode time against kv-heads, one panel for each context and batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from src.bench.arms import NAIVE, OURS
from src.bench.measure import Row

STYLES = {OURS: ("#0072B2", "o"), NAIVE: ("#D55E00", "s"), "latent": ("#009E73", "D")}
"""Colour and marker of each way; told apart by every kind of colour vision (Okabe and Ito)."""


def plot(rows: Sequence[Row], path: Path) -> None:
    """Writes the picture; its format is that of the file's ending."""
    panels = sorted({(row.context_length, row.batch) for row in rows})
    figure = Figure(figsize=(4.2 * len(panels) + 0.6, 3.8), layout="constrained", dpi=130)
    for axes, (context, batch) in zip(figure.subplots(1, len(panels), squeeze=False).flat, panels, strict=True):
        draw([row for row in rows if (row.context_length, row.batch) == (context, batch)], axes)
        axes.set_title(f"{context:,} tokens of context, batch {batch}", fontsize=10)
    first = rows[0]
    figure.supxlabel(
        f"{first.device}, {first.dtype}, {first.threads} threads; median of {first.rounds} rounds, bars: min to max",
        fontsize=8,
    )
    figure.savefig(path)


def draw(rows: Sequence[Row], axes: Axes) -> Axes:
    """Decode time of one panel's rows; a line for each head count and way, points at the kv-heads that ran."""
    for heads in sorted({row.heads for row in rows}):
        for way in (OURS, NAIVE):
            line = sorted(
                (r for r in rows if r.heads == heads and r.way == way and r.attention == "grouped"),
                key=lambda row: row.kv_heads,
            )
            _series(axes, line, [row.kv_heads for row in line], way, f"{way}, {heads} heads")
    latent = [row for row in rows if row.attention == "latent"]
    _series(axes, latent, [row.heads for row in latent], "latent", "latent (at its heads)", joined=False)
    counts = sorted({row.kv_heads if row.attention == "grouped" else row.heads for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("kv-heads")
    axes.set_ylabel("decode, ms a token")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8, frameon=False)
    return axes


def _series(
    axes: Axes, rows: Sequence[Row], places: Sequence[int], style: str, label: str, joined: bool = True
) -> None:
    if not rows:
        return
    colour, marker = STYLES[style]
    middle = [row.decode_ms_per_token for row in rows]
    below = [row.decode_ms_per_token - row.decode_ms_min for row in rows]
    above = [row.decode_ms_max - row.decode_ms_per_token for row in rows]
    line = "-" if joined else "none"
    axes.errorbar(places, middle, [below, above], color=colour, marker=marker, linestyle=line, capsize=3, label=label)
