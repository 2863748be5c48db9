"""One value into one column: exact, or an error that names the column and the value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

from src.errors import RunError
from src.export.columns import Columns, Kind
from src.metrics import METRICS
from src.record import Record, encode

Row = dict[str, Any]
_INTEGER = re.compile(r"[+-]?\d+(\.0+)?")


def run_row(record: Record, columns: Columns) -> Row:
    """The row of one run, each value in its column's type.

    A setting that this code does not know keeps a column of text, so that runs it tells apart are not mixed.
    Raises RunError where a value does not fit its column.
    """
    values = dict(_values(record))
    known: Row = {name: cell(name, kind, values.get(name)) for name, kind in columns.items()}
    unknown = {name: cell(name, "text", value) for name, value in values.items() if _is_unknown(name, columns)}
    return known | unknown


def step_rows(record: Record, rows: list[Row], columns: Columns) -> Iterator[Row]:
    """The rows of one run's steps, one a step: where a step stands twice, its later row. Raises RunError as above."""
    by_step: dict[Any, Row] = {row.get("step"): row for row in rows}
    if None in by_step:
        raise RunError("a row of its metrics has no step")
    for row in by_step.values():
        values = {**row, "run_id": record.run_id}
        yield {name: cell(name, kind, values.get(name)) for name, kind in columns.items()}


def cell(name: str, kind: Kind, value: Any) -> Any:
    """The value as its column holds it; missing stays missing.

    >>> cell("heads", "integer", "8"), cell("heads", "integer", 8.0), cell("training.threads", "text", 2.0)
    (8, 8, '2')
    """
    if value is None:
        return None
    if kind == "text":
        return _text(value)
    if kind == "flag":
        if isinstance(value, bool):
            return value
    elif isinstance(value, bool):
        pass
    elif kind == "integer":
        if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
            return int(value)
        if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
            return int(float(value)) if "." in value else int(value)
    elif isinstance(value, int | float):
        return float(value)
    elif isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            pass
    raise RunError(f"{name}={value!r} is no {kind}")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return str(int(value))
    return json.dumps(encode(value))


def _values(record: Record) -> Iterator[tuple[str, Any]]:
    geometry, environment = record.geometry, record.environment
    for name in ("run_id", "status", "config_hash", "started_at", "ended_at"):
        yield name, getattr(record, name)
    for name in ("group", "seed"):
        yield name, record.config.get(name)
    for name in ("heads", "kv_heads", "head_dim", "context_length", "regime", "attention"):
        yield name, geometry.get(name)
    is_latent = geometry.get("attention") == "latent"
    for name in ("latent_dim", "rope_dim"):
        yield name, geometry.get(name) if is_latent else None
    yield "attention_kernel", environment.get("attention_kernel")
    yield "data_hash", record.data.get("hash")
    yield "segments", len(record.segments) or None
    if record.error is not None:
        yield "error", f"{record.error.get('type')}: {record.error.get('message')}"
    yield from record.summary.items()
    sections = ("config", "geometry", "costs", "data", "code", "environment")
    for section in sections:
        yield from _flat(getattr(record, section), f"{section}.")
    yield "data.source", _without_its_folder(record.data.get("source"))


def _without_its_folder(source: Any) -> Any:
    """A file or folder of data by its own name: where it lay is nobody else's business, its hash tells what it was.

    >>> _without_its_folder("/home/ada/texts/poems.txt"), _without_its_folder("plays/, 37 files")
    ('poems.txt', 'plays/, 37 files')
    """
    is_path = isinstance(source, str) and (Path(source).is_absolute() or PureWindowsPath(source).is_absolute())
    return PureWindowsPath(source).name if is_path else source


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _is_unknown(name: str, columns: Columns) -> bool:
    """Settings alone: what else a record holds and nobody declared decides no result."""
    return name.startswith("config.") and name not in columns and name not in METRICS
