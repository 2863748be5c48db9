"""The audit as people read it: one table for each regime, model, attention and context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from src.audit.rows import COMPARED, HELD, Refused, Row, dtype_of
from src.geometry import Geometry
from src.regimes import TOLERANCE, regime_of

_HEADERS = {
    "kv_heads": "kv\nheads",
    "head_dim": "head\ndim",
    "latent_dim": "latent\ndim",
    "rope_dim": "rope\ndim",
    "attention_width": "width",
    "ffn_width": "ffn",
    "parameters": "params",
    "attention_parameters": "attention\nparams",
    "flops_per_token": "FLOPs/\ntoken",
    "decode_flops_per_token": "decode\nFLOPs",
    "decode_bytes_read_per_token": "decode\nbytes",
    "cache_bytes_per_token": "cache/\ntoken",
}
_SHAPE = ("heads", "kv_heads", "head_dim", "attention_width", "ffn_width")
_LATENT_SHAPE = ("heads", "head_dim", "latent_dim", "rope_dim", "attention_width", "ffn_width")
_WIDE = 150  # columns of a terminal that hold value and ratio side by side


def tables(rows: Sequence[Row | Refused], vocabulary_size: int, width: int) -> Iterator[RenderableType]:
    """What to print, in the order of the rows."""
    groups: dict[tuple[str | int, ...], list[Row | Refused]] = {}
    for row in rows:
        groups.setdefault(_label(row), []).append(row)
    for group in groups.values():
        met = [row for row in group if isinstance(row, Row)]
        refused = [row for row in group if isinstance(row, Refused)]
        parts: list[RenderableType] = [_title(group[0])]
        if met:
            parts += [_table(met, separator=" " if width >= _WIDE else "\n"), _caption(met[0], vocabulary_size)]
        parts += [Text(f"refused: {row.reason}", style="yellow") for row in refused]
        yield Group(*parts, Text())


def _label(row: Row | Refused) -> tuple[str | int, ...]:
    config = row.config
    return regime_of(config), config.model.name, config.attention, config.context_length


def _title(row: Row | Refused) -> Text:
    config = row.config
    regime = regime_of(config)
    held = HELD[regime].replace("_", " ")
    return Text.assemble(
        (f"regime={regime}", "bold"),
        f" holds {held}  model={config.model.name} attention={config.attention} context_length={config.context_length}",
    )


def _table(rows: Sequence[Row], separator: str) -> Table:
    table = Table(box=None, padding=(0, 1), collapse_padding=True, pad_edge=False, header_style="bold")
    shape = _LATENT_SHAPE if rows[0].geometry.is_latent else _SHAPE
    held = HELD[rows[0].geometry.regime]
    for name in (*shape, *COMPARED):
        style = "cyan" if name == held else None
        table.add_column(_HEADERS.get(name, name), justify="right", style=style)
    for row in rows:
        cells = [Text(str(getattr(row.geometry, name))) for name in shape]
        cells += [_cell(row, cost, separator) for cost in COMPARED]
        table.add_row(*cells, style="bold" if row.is_reference else None)
    return table


def _cell(row: Row, cost: str, separator: str) -> Text:
    value = getattr(row.costs, cost)
    shown = binary(value) if "bytes" in cost else decimal(value)
    ratio = row.ratio(cost)
    if ratio is None:
        return Text(shown)
    mark = Text("=", style="green") if row.is_matched(cost) else Text(f"x{ratio:.3g}", style="dim")
    return Text(f"{shown}{separator}").append_text(mark)


def _caption(row: Row, vocabulary_size: int) -> Text:
    reference = "no reference"
    if row.reference is not None:
        reference = f"reference: {_named(row.geometry.reference)}"
    return Text(
        f"{reference}; = within {float(TOLERANCE):.1%} of it, x2 twice as much. "
        f"Vocabulary {vocabulary_size:,}; bytes in {dtype_of(row.config)}, batch 1.",
        style="dim",
    )


def _named(geometry: Geometry) -> str:
    kv = geometry.kv_heads
    kind = "MHA" if kv == geometry.heads else "MQA" if kv == 1 else "GQA"
    shared = "" if kind == "MHA" else f", kv_heads={kv}"
    return f"{kind}, heads={geometry.heads}{shared}, head_dim={geometry.head_dim}, ffn_width={geometry.ffn_width}"


def decimal(number: int) -> str:
    """Three digits and a power of ten.

    >>> decimal(804096), decimal(124439808), decimal(512)
    ('804K', '124M', '512')
    """
    return _scaled(number, 1000, ("", "K", "M", "G", "T", "P"))


def binary(number: int) -> str:
    """Three digits and a power of 1,024 bytes.

    >>> binary(512), binary(327680)
    ('512B', '320KiB')
    """
    return _scaled(number, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def _scaled(number: int, base: int, units: Sequence[str]) -> str:
    value, power = float(number), 0
    while value >= 999.5 and power < len(units) - 1:
        value, power = value / base, power + 1
    return f"{value:.3g}{units[power]}"
