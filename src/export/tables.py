"""Tables on disk: parquet with fixed types, and CSV beside it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import csv, parquet

from src.export.cells import Row
from src.export.columns import Columns, Kind

TYPES: dict[Kind, pa.DataType] = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "flag": pa.bool_(),
    "text": pa.string(),
}
_PANDAS = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}


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
