"""Published models, audited: parameters against the printed count, cache beside MHA, FLOPs of a decoded token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from src import costs
from src.metrics import bytes_shown, count_shown
from src.published import Published, published

CACHE_DTYPE = "float16"


def models(names: str) -> list[Published]:
    """The models of a comma list. Raises ConfigError for a name that is not known."""
    return [published(name.strip()) for name in names.split(",")]


def as_dict(model: Published) -> dict[str, Any]:
    """One model as plain values; the reference is MHA of the same heads in the same model."""
    g = model.geometry
    mha = replace(g, attention="grouped", kv_heads=g.heads, latent_dim=0, rope_dim=0)
    return {
        "name": model.name,
        "variant": g.kind.display_name(g.heads, g.kv_heads),
        **g.as_dict(),
        "vocabulary_size": model.vocabulary_size,
        "parameters": model.counted_parameters,
        "published_parameters": model.parameters,
        "parameters_off": model.counted_parameters / model.parameters - 1,
        "cache_bytes_per_token_per_layer": costs.cache_bytes(replace(g, layers=1), 1, 1, CACHE_DTYPE),
        "cache_bytes": costs.cache_bytes(g, 1, g.context_length, CACHE_DTYPE),
        "cache_bytes_as_mha": costs.cache_bytes(mha, 1, g.context_length, CACHE_DTYPE),
        "decode_flops_per_token": model.decode_flops_per_token,
        "source": model.source,
        "note": model.note,
    }


def tables(chosen: Sequence[Published]) -> Iterator[RenderableType]:
    """One row a model, then what each of them has that ours has not."""
    table = Table(box=None, padding=(0, 1), collapse_padding=True, pad_edge=False, header_style="bold")
    table.add_column("model", no_wrap=True)
    heads = ("heads", "kv-heads\nor latent", "head\ndim", "params\nof published", "B/token\n/layer")
    for column in (*heads, "context", "cache\nMHA", "decode\nFLOPs"):
        table.add_column(column, justify="right")
    for row in map(as_dict, chosen):
        table.add_row(*_cells(row))
    yield table
    yield Text(
        "Cache in fp16 of one sequence at the model's own context, and as many heads of MHA would take; FLOPs of one "
        "token decoded there.",
        style="dim",
    )
    for model in chosen:
        yield Text(f"{model.name}: {model.source}" + (f"; {model.note}" if model.note else ""), style="dim")


def _cells(row: dict[str, Any]) -> list[str]:
    is_latent = row["latent_dim"] > 0
    return [
        f"{row['name']}\n{row['variant']}",
        str(row["heads"]),
        f"{row['latent_dim']}+{row['rope_dim']}" if is_latent else str(row["kv_heads"]),
        str(row["head_dim"]),
        f"{count_shown(row['parameters'])}\n{row['parameters_off']:+.2%}",
        f"{row['cache_bytes_per_token_per_layer']:,}",
        f"{row['context_length']:,}",
        f"{_size(row['cache_bytes'])}\n{_size(row['cache_bytes_as_mha'])}",
        count_shown(row["decode_flops_per_token"]),
    ]


def _size(count: int) -> str:
    return bytes_shown(count, digits=3).replace(" ", "")  # 80 columns leave no room for a blank before the unit
