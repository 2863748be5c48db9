"""What an arm costs: cache bytes against context, loss against a cost with its frontier, and speeds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from analysis.findings import some
from analysis.load import FINISHED, Export, require
from analysis.plots.figures import Drawn, compared, counts_said, figure, new_axes
from analysis.plots.style import (
    COLOURS,
    INK,
    KINDS,
    axis_name,
    count_axis,
    legend_below,
    levels,
    show_bytes,
    show_thousands,
    style_of,
)
from analysis.verdict import Verdict
from src.attention_kinds import display_name
from src.metrics import bytes_shown

PER_TOKEN = "costs.cache_bytes_per_token"


def draw_cache_size(table: pd.DataFrame, ax: Axes) -> Axes:
    """One point a run (columns: attention, heads, kv_heads, context_length, cache/bytes, costs.cache_bytes_per_token).

    Runs that keep as much a token share a line; its label says which heads those are. Raises AnalysisError for a
    missing column.
    """
    require(table, ("attention", "heads", "kv_heads", "context_length", "cache/bytes", PER_TOKEN))
    kinds = [display_name(*row) for row in table[["attention", "heads", "kv_heads"]].itertuples(index=False)]
    contexts = levels(table["context_length"])
    reach = np.array([contexts[0] / 2**0.5, contexts[-1] * 2**0.5], dtype=float)
    named = table.assign(kind=kinds)
    groups = {(int(key), str(kind)): own for (key, kind), own in named.groupby([PER_TOKEN, "kind"])}  # pyright: ignore
    seen: dict[str, int] = {}
    for (per_token, kind), own in sorted(groups.items(), key=lambda item: -item[0][0]):
        colour, marker = style_of(KINDS[kind])
        styles = ("-", "--", ":", "-.")
        line = styles[seen.get(kind, 0) % len(styles)]
        seen[kind] = seen.get(kind, 0) + 1
        ax.plot(reach, reach * per_token, color=colour, linestyle=line, linewidth=1.0)
        label = f"{kind}, {_heads(own)}: {bytes_shown(per_token, digits=3)}/token"
        ax.plot(own["context_length"].astype(float), own["cache/bytes"].astype(float), marker, color=colour)
        ax.plot([], [], marker=marker, color=colour, linestyle=line, linewidth=1.0, label=label)
    count_axis(ax, contexts, "context_length")
    ax.set_yscale("log", base=2)
    ax.yaxis.set_minor_locator(NullLocator())
    show_bytes(ax.yaxis)
    ax.set_ylabel("cache/bytes (batch 1)")
    legend_below(ax, columns=2)
    return ax


def _heads(own: pd.DataFrame) -> str:
    """'heads 1, 2, 4' or 'heads 8 on kv_heads 2'."""
    heads, kv_heads = (", ".join(map(str, levels(own[name]))) for name in ("heads", "kv_heads"))
    return f"heads {heads}" if heads == kv_heads else f"heads {heads} on kv_heads {kv_heads}"


@figure("cache size", at=10, needs=("cache/bytes",), spans=True)
def cache_size_figure(export: Export, factor: str, metric: str) -> Iterator[Drawn]:
    runs = export.runs
    measured = runs[(runs["status"] == FINISHED) & runs["cache/bytes"].notna()]
    if measured.empty:
        return
    picture, ax = new_axes()
    draw_cache_size(measured, ax)
    caption = (
        f"Points are the bytes that {len(measured)} runs allocated for one sequence, lines the formula of src/costs.py "
        f"over other contexts. Source: {export.sentence}."
    )
    yield Drawn("cache_size", "KV cache against context", caption, picture)


# Loss against a cost: each arm a point with both intervals, the frontier a line, its knee named.
def draw_frontier(
    points: pd.DataFrame,
    ax: Axes,
    *,
    cost: str,
    metric: str = "val/loss",
    unit: str | None = None,
    factor: str = "heads",
    knee: Any = None,
) -> Axes:
    """One row an arm, as `analysis.checks.frontier.Frontier.points`. A hollow arm is beaten by another on both axes."""
    ordered = points.sort_values("cost")
    front = ordered[ordered["on_frontier"]]
    ax.plot(front["cost"], front["value"], color=COLOURS[6], linewidth=1.0, drawstyle="steps-post", zorder=1)
    for position, (arm, row) in enumerate(points.iterrows()):
        colour, marker = style_of(position)
        x, y = row["cost"], row["value"]
        reach_x = _reach(x, row["cost_low"], row["cost_high"])
        reach_y = _reach(y, row["low"], row["high"])
        fill = colour if row["on_frontier"] else "none"
        ax.errorbar(x, y, reach_y, reach_x, color=colour, marker=marker, markerfacecolor=fill, capsize=2, zorder=3)
        name = f"{arm}, knee" if arm == knee else f"{arm}"
        ax.annotate(name, (x, y), xytext=(7, 6), textcoords="offset points", color=INK, fontsize=8, parse_math=False)
    if (ordered["cost"] > 0).all() and ordered["cost"].max() >= 4 * ordered["cost"].min():
        ax.set_xscale("log", base=2)
    if "bytes" in cost:
        show_bytes(ax.xaxis)
    elif ordered["cost"].max() >= 1000:
        show_thousands(ax.xaxis)
    ax.set_xlabel(axis_name(cost))
    ax.set_ylabel(axis_name(metric, unit))
    ax.set_title(f"points are {factor}", fontsize=8, fontweight="normal", loc="right")
    return ax


def _reach(value: float, low: float, high: float) -> list[list[float]] | None:
    return None if np.isnan(low) or low == high else [[value - low], [high - value]]


@figure("frontiers", at=50)
def frontier_figures(verdict: Verdict, export: Export) -> Iterator[Drawn]:
    for cost, front in verdict.frontiers.items():
        price = front.points["cost"].to_numpy(dtype=float)
        if len(price) < 2 or np.ptp(price) <= 1e-9 * np.abs(price).max():
            continue
        picture, ax = new_axes()
        draw_frontier(front.points, ax, cost=cost, knee=front.knee, **compared(verdict))
        shares = some([f"{arm}: {share:.0%}" for arm, share in front.points["share"].items()], shown=16)
        caption = (
            "Means with 95% t intervals; filled points are on the frontier: no other is at least as good and as "
            f"cheap. Share of resampled seeds in which each is on it: {shares}. {counts_said(verdict)}. "
            f"Source: {export.sentence}."
        )
        yield Drawn(f"frontier_{cost.replace('/', '_')}", f"{verdict.metric} against {cost}", caption, picture)


# Throughput and decoding against heads or kv-heads; which attention kernel ran is part of the picture.
_SPEEDS = ("train/tokens_per_second", "decode/ms_per_token")
_DEVICE = ("environment.device_name", "environment.dtype")
KERNEL_OF = {
    "train": "attention_kernel",
    "prefill": "environment.prefill_attention_kernel",
    "decode": "environment.decode_attention_kernel",
}


def kernel_column(metric: str) -> str:
    """The column that says which attention kernel a speed was measured with.

    >>> kernel_column("train/tokens_per_second"), kernel_column("decode/prefill_tokens_per_second")
    ('attention_kernel', 'environment.prefill_attention_kernel')
    """
    phase = "prefill" if "prefill" in metric else metric.partition("/")[0]
    return KERNEL_OF.get(phase, KERNEL_OF["train"])


def draw_speed(
    table: pd.DataFrame, ax: Axes, *, factor: str = "heads", metric: str = "train/tokens_per_second"
) -> Axes:
    """One dot a run, a line through the medians; a colour for each attention kernel, so that speeds of unlike
    kernels are not read as speeds of unlike head counts. Starts at 0.
    """
    column = kernel_column(metric)
    kernels = table[column].fillna("kernel unknown") if column in table else pd.Series("kernel unknown", table.index)
    for position, kernel in enumerate(sorted(kernels.unique())):
        own = table[(kernels == kernel) & table[metric].notna()]
        if own.empty:
            continue
        colour, marker = style_of(position)
        middle = own.groupby(factor)[metric].median()
        ax.plot(own[factor].astype(float), own[metric].astype(float), marker, color=colour, alpha=0.4, markersize=4)
        ax.plot(middle.index.astype(float), middle, color=colour, marker=marker, markersize=6, label=kernel)
    count_axis(ax, levels(table[factor]), factor)
    ax.set_ylim(bottom=0)
    if table[metric].max() >= 1000:
        show_thousands(ax.yaxis)
    ax.set_ylabel(axis_name(metric))
    ax.legend(title="attention kernel", loc="lower left")
    return ax


@figure("speeds", at=40)
def speed_figures(verdict: Verdict, export: Export) -> Iterator[Drawn]:
    runs = verdict.cells.runs
    for metric in _SPEEDS:
        if metric not in runs or runs[metric].isna().all():
            continue
        picture, ax = new_axes()
        draw_speed(runs, ax, factor=verdict.factor, metric=metric)
        where = [some([str(v) for v in runs[name].dropna().unique()]) for name in _DEVICE if name in runs]
        caption = (
            f"Each dot is one run, lines join medians; colours are attention kernels, which head width can change. "
            f"Measured on {', '.join(word for word in where if word)}. {counts_said(verdict)}. "
            f"Source: {export.sentence}."
        )
        yield Drawn(metric.replace("/", "_"), f"{metric} against {verdict.factor}", caption, picture)
