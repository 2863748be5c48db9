"""The rows of a benchmark for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from src.attention_kinds import BASELINE, display_name, kind_of, own_settings
from src.bench.measure import NAIVE, OURS, Row
from src.metrics import bytes_shown


def table(rows: Sequence[Row], bandwidth: float) -> Table:
    """One line an arm; conditions that all share stand in the title, once."""
    first = rows[0]
    shared = f"{first.device}, {first.dtype}, {first.threads} threads, reads {bandwidth / 1e9:.1f} GB/s"
    shown = Table(title=f"decode and prefill, median of {first.rounds} rounds\n{shared}", box=None, pad_edge=False)
    shown.add_column("heads", justify="right")
    shown.add_column("kv", justify="right")
    shown.add_column("width", justify="right")
    shown.add_column("context", justify="right")
    shown.add_column("batch", justify="right")
    shown.add_column("way")
    shown.add_column("kernel")
    shown.add_column("ms/token", justify="right")
    shown.add_column("tokens/s", justify="right")
    shown.add_column("prefill", justify="right")
    shown.add_column("cache", justify="right")
    shown.add_column("read", justify="right")
    shown.add_column("of bandwidth", justify="right")
    for row in rows:
        shown.add_row(
            str(row.heads),
            _kv(row),
            str(row.head_dim),
            f"{row.context_length:,}",
            str(row.batch),
            row.way,
            row.kernel,
            f"{row.decode_ms_per_token:.2f}",
            f"{row.decode_tokens_per_second:,.0f}",
            f"{row.prefill_tokens_per_second:,.0f}",
            bytes_shown(row.cache_bytes, digits=3),
            bytes_shown(row.bytes_read_per_step, digits=3),
            f"{row.bandwidth_share:.0%}",
            style="dim" if row.is_naive else "",
        )
    return shown


def mixed_kernels(rows: Sequence[Row]) -> str | None:
    """A warning where arms of our own way ran different kernels: then speeds compare kernels too."""
    kernels = sorted({row.kernel for row in rows if not row.is_naive and _shares(row)})
    if len(kernels) < 2:
        return None
    return f"the arms ran different kernels ({', '.join(kernels)}): attention_kernel=... forces one for all"


def _kv(row: Row) -> str:
    """The kv-heads; of a kind with widths of its own, those."""
    own = [str(getattr(row, name)) for name in own_settings(row.attention)]
    name = display_name(row.attention, row.heads, row.kv_heads)
    return f"{name.lower()} {'+'.join(own)}" if own else str(row.kv_heads)


# Decode time against kv-heads, one panel for each context and batch.
ALONE = "a kind whose kv-heads are no choice"
STYLES = {OURS: ("#0072B2", "o"), NAIVE: ("#D55E00", "s"), ALONE: ("#009E73", "D")}
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
    for attention in dict.fromkeys(row.attention for row in rows):
        own = [row for row in rows if row.attention == attention]
        if not _shares(own[0]):
            _series(axes, own, [row.heads for row in own], ALONE, f"{attention} (at its heads)", joined=False)
            continue
        prefix = "" if attention == BASELINE.name else f"{attention}: "
        for heads in sorted({row.heads for row in own}):
            for way in (OURS, NAIVE):
                line = sorted((r for r in own if (r.heads, r.way) == (heads, way)), key=lambda row: row.kv_heads)
                _series(axes, line, [row.kv_heads for row in line], way, f"{prefix}{way}, {heads} heads")
    counts = sorted({row.kv_heads if _shares(row) else row.heads for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("kv-heads")
    axes.set_ylabel("decode, ms a token")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8, frameon=False)
    return axes


def _shares(row: Row) -> bool:
    return kind_of(row.attention).shares_kv_heads


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
