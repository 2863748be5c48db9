"""Rows of typed cells (each exact, or an error that names its column), and the tables on disk: parquet and CSV."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import csv, parquet

from src.attention_kinds import own_settings
from src.errors import RunError
from src.export.columns import FORMER, NO_COLUMNS, Columns, Kind
from src.record import Record, encode

Row = dict[str, Any]
TYPES: dict[Kind, pa.DataType] = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "flag": pa.bool_(),
    "text": pa.string(),
}
_PANDAS = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
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
    """Every value of a record by its column; of a name that comes twice the later value counts."""
    geometry, environment = record.geometry, record.environment
    for section in ("config", "geometry", "costs", "data", "code", "environment"):
        for name, value in _flat(getattr(record, section), f"{section}."):
            yield FORMER.get(name, name), value
    for name in ("run_id", "status", "config_hash", "started_at", "ended_at"):
        yield name, getattr(record, name)
    for name in ("kv_heads", "head_dim", "regime"):
        yield name, geometry.get(name)
    used = own_settings(geometry.get("attention"))
    for name in ("latent_dim", "rope_dim"):
        yield name, geometry.get(name) if name in used else None
    yield "attention_kernel", environment.get("attention_kernel")
    yield "data.source", _without_its_folder(record.data.get("source"))
    yield "parent", None if record.parent is None else record.parent.get("run_id")
    yield "segments", len(record.segments) or None
    yield "error", None if record.error is None else f"{record.error.get('type')}: {record.error.get('message')}"
    yield from ((name, value) for name, value in record.summary.items() if value is not None)


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
    return name.startswith("config.") and name not in columns and name not in NO_COLUMNS


def table_of(rows: Iterable[Row], columns: Columns) -> pa.Table:
    """The rows as typed columns; what a row does not have is null."""
    listed = list(rows)
    arrays = [pa.array([row.get(name) for row in listed], TYPES[kind]) for name, kind in columns.items()]
    return pa.table(dict(zip(columns, arrays, strict=True)))


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """The table with integers as integers, missing ones among them as missing."""
    return table.to_pandas(types_mapper=_PANDAS.get, ignore_metadata=True)


def write_table(table: pa.Table, folder: Path, name: str) -> dict[str, dict[str, Any]]:
    """Writes `<name>.parquet` and `<name>.csv`, each under a temporary name first; gives rows and hash of each file.

    In the CSV a missing value is empty, and a number that is not finite reads nan, inf or -inf.
    """
    writers = {folder / f"{name}.parquet": _write_parquet, folder / f"{name}.csv": csv.write_csv}
    for path, write in writers.items():
        _replaced(path, lambda temporary, write=write: write(table, temporary))
    return {path.name: {"rows": table.num_rows, "sha256": sha256(path)} for path in writers}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write_parquet(table: pa.Table, path: Path) -> None:
    # Pandas' own reader would make floats of integers among which one is missing; this tells it not to. Arrow's
    # copy of the schema, and statistics, would triple the size of a table with many columns and few rows.
    empty = to_pandas(table.schema.empty_table())
    told = pa.Schema.from_pandas(empty, preserve_index=False).metadata or {}
    small = {"compression": "zstd", "write_statistics": False, "use_dictionary": False, "store_schema": False}
    with parquet.ParquetWriter(path, table.schema, **small) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(told)


def _replaced(path: Path, write: Any) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
