"""The rows of a benchmark for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from src.bench.measure import Row


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
        kv = f"mla {row.latent_dim}+{row.rope_dim}" if row.attention == "latent" else str(row.kv_heads)
        shown.add_row(
            str(row.heads),
            kv,
            str(row.head_dim),
            f"{row.context_length:,}",
            str(row.batch),
            row.way,
            row.kernel,
            f"{row.decode_ms_per_token:.2f}",
            f"{row.decode_tokens_per_second:,.0f}",
            f"{row.prefill_tokens_per_second:,.0f}",
            mebibytes(row.cache_bytes),
            mebibytes(row.bytes_read_per_step),
            f"{row.bandwidth_share:.0%}",
            style="dim" if row.is_naive else "",
        )
    return shown


def mixed_kernels(rows: Sequence[Row]) -> str | None:
    """A warning where arms of our own way ran different kernels: then speeds compare kernels too."""
    kernels = sorted({row.kernel for row in rows if not row.is_naive and row.attention == "grouped"})
    if len(kernels) < 2:
        return None
    return f"the arms ran different kernels ({', '.join(kernels)}): attention_kernel=... forces one for all"


def mebibytes(count: int) -> str:
    return f"{count / 2**20:.2f} MiB" if count < 100 * 2**20 else f"{count / 2**20:,.0f} MiB"
