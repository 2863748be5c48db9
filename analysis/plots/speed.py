"""Throughput and decoding against heads or kv-heads; which attention kernel ran is part of the picture."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from matplotlib.axes import Axes

from analysis.findings import some
from analysis.load import Export
from analysis.plots.figures import Drawn, counts_said, figure, new_axes
from analysis.plots.style import axis_name, count_axis, levels, show_thousands, style_of
from analysis.verdict import Verdict

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


def draw(table: pd.DataFrame, ax: Axes, *, factor: str = "heads", metric: str = "train/tokens_per_second") -> Axes:
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
def drawn(verdict: Verdict, export: Export) -> Iterator[Drawn]:
    runs = verdict.cells.runs
    for metric in _SPEEDS:
        if metric not in runs or runs[metric].isna().all():
            continue
        picture, ax = new_axes()
        draw(runs, ax, factor=verdict.factor, metric=metric)
        where = [some([str(v) for v in runs[name].dropna().unique()]) for name in _DEVICE if name in runs]
        caption = (
            f"Each dot is one run, lines join medians; colours are attention kernels, which head width can change. "
            f"Measured on {', '.join(word for word in where if word)}. {counts_said(verdict)}. "
            f"Source: {export.sentence}."
        )
        yield Drawn(metric.replace("/", "_"), f"{metric} against {verdict.factor}", caption, picture)
