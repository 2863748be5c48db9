"""The folder of an export, from any source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from src.errors import RunError
from src.export.cells import Row, run_row, step_rows
from src.export.columns import Columns, run_columns, step_columns
from src.export.manifest import MANIFEST, manifest_of
from src.export.source import LeftOut, ReadRun, Source
from src.export.tables import table_of, write_table
from src.record import encode, write_atomically


@dataclass
class _Rows:
    """The rows of what fits the columns; what does not fit is left out whole."""

    runs: list[Row]
    steps: list[Row]
    kept: list[ReadRun]
    left_out: list[LeftOut]


def write_export(source: Source, out: Path) -> dict[str, Any]:
    """Writes tables and manifest; an older export in `out` is replaced, any other folder is not touched.

    Gives the manifest. Raises RunError where the folder cannot be used.
    """
    _check(out)
    columns = run_columns()
    steps_columns = step_columns({name for run in source.runs for row in run.rows for name in row})
    rows = _rows(source, columns, steps_columns)
    columns |= {name: "text" for row in rows.runs for name in row if name not in columns}
    try:
        out.mkdir(parents=True, exist_ok=True)
        files = write_table(table_of(rows.runs, columns), out, "runs")
        files |= write_table(table_of(rows.steps, steps_columns), out, "steps")
        manifest = manifest_of(source, (run.record for run in rows.kept), rows.left_out, files, columns)
        # Last: whoever finds a manifest that agrees with the tables' hashes has a whole export.
        write_atomically(out / MANIFEST, json.dumps(encode(manifest), indent=1, allow_nan=False) + "\n")
    except OSError as error:
        raise RunError(f"the export cannot be written to {out}: {error.strerror}; choose another --out") from None
    return manifest


def summary(manifest: dict[str, Any]) -> Iterator[str]:
    """What the command says: how many of how many, and each run that is not there."""
    counts = manifest["counts"]
    of = "" if counts["planned"] is None else f" of {counts['planned']} planned"
    yield f"{counts.get('finished', 0)} finished{of}, {counts['exported']} exported"
    if manifest["partial"]:
        yield f"partial: {manifest['partial']}"
    for status, run_ids in manifest["runs"].items():
        if status != "finished":
            yield f"{status.replace('_', ' ')}: {', '.join(run_ids)}"
    if manifest["missing"]:
        yield f"planned, without a record: {', '.join(manifest['missing'])}"
    for item in manifest["left_out"]:
        yield f"left out: {item['run_id']}: {item['reason']}"


def _rows(source: Source, columns: Columns, steps_columns: Columns) -> _Rows:
    found = _Rows([], [], [], list(source.left_out))
    for run in sorted(source.runs, key=lambda run: run.record.run_id):
        try:
            row = run_row(run.record, columns)
            steps = list(step_rows(run.record, run.rows, steps_columns))
        except RunError as error:
            found.left_out.append(LeftOut(run.record.run_id, str(error)))
            continue
        found.runs.append(row)
        found.steps.extend(steps)
        found.kept.append(run)
    return found


def _check(out: Path) -> None:
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).exists():
        raise RunError(f"{out} holds files that are no export; choose another --out")
    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file; choose a folder for --out")
