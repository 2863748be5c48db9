"""Cache bytes against context: what was allocated as points, what src.costs says as lines."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from analysis.load import FINISHED, Export, require
from analysis.plots.figures import Drawn, figure, new_axes
from analysis.plots.style import KINDS, count_axis, legend_below, levels, show_bytes, style_of
from src.attention_kinds import display_name
from src.metrics import bytes_shown

PER_TOKEN = "costs.cache_bytes_per_token"


def draw(table: pd.DataFrame, ax: Axes) -> Axes:
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
def drawn(export: Export, factor: str, metric: str) -> Iterator[Drawn]:
    runs = export.runs
    measured = runs[(runs["status"] == FINISHED) & runs["cache/bytes"].notna()]
    if measured.empty:
        return
    picture, ax = new_axes()
    draw(measured, ax)
    caption = (
        f"Points are the bytes that {len(measured)} runs allocated for one sequence, lines the formula of src/costs.py "
        f"over other contexts. Source: {export.sentence}."
    )
    yield Drawn("cache_size", "KV cache against context", caption, picture)
