"""The audit as people read it: one table for each regime, model, attention and context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from src.audit.rows import COMPARED, Refused, Row, dtype_of
from src.geometry import Geometry
from src.metrics import bytes_shown, count_shown
from src.regimes import HELD, TOLERANCE, regime_of

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
    shape = rows[0].geometry.kind.shape_columns
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
    # 80 columns leave no room for a blank before the unit.
    shown = bytes_shown(value, digits=3).replace(" ", "") if "bytes" in cost else count_shown(value)
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
    g, kind = geometry, geometry.kind.display_name(geometry.heads, geometry.kv_heads)
    shared = "" if g.kv_heads == g.heads else f", kv_heads={g.kv_heads}"
    return f"{kind}, heads={g.heads}{shared}, head_dim={g.head_dim}, ffn_width={g.ffn_width}"
