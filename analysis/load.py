"""An export as the analysis sees it: its tables, what was planned, and what a reader must know of the export itself.

A table of runs has one row a run. Columns that are read here and in the other modules:

    run_id, status, seed                 always needed
    heads (or another factor)            the thing that varies; integers stay integers
    kv_heads, head_dim, context_length,  final integers and words of the run
    regime, attention, data_hash
    config.<setting>                     what its user wrote: config.model.d_model, config.training.learning_rate
    geometry.*, costs.*                  derived integers
    <metric>                             slash names of src/metrics.py: val/loss, train/tokens, cache/bytes, ...
    started_at, error                    optional: order of repeats, reason of a failure
    code.*, environment.*                optional: named when not alike

A table of steps has run_id, step and the same metric names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyarrow import ArrowException, parquet

from analysis.findings import AnalysisError, Finding, caution, some
from src.errors import did_you_mean
from src.export.columns import FORMER
from src.export.tables import sha256, to_pandas
from src.export.write import MANIFEST, SCHEMA_VERSION
from src.metrics import METRICS
from src.record import METRICS as METRICS_FILE
from src.record import RECORD, STATUSES, decode

COUNTS = ("heads", "kv_heads", "head_dim", "context_length")
INTEGERS = ("heads", "kv_heads", "head_dim", "context_length", "seed", "latent_dim", "rope_dim")
COSTS = (
    "cost/parameters",
    "cost/attention_parameters",
    "cost/flops_per_token",
    "cache/bytes",
    "train/tokens_per_second",
    "decode/ms_per_token",
    "memory/peak_bytes",
)
FINISHED = "finished"
NOT_RUN = "not_run"
_SETTINGS_OF_THEIR_OWN = ("heads", "kv_heads", "head_dim", "context_length", "regime", "attention", "seed")


@dataclass(frozen=True)
class Export:
    """`planned`: run_id, what sets each planned run apart, and the status and error that it has if it has no row;
    None where no plan is known.
    """

    folder: Path
    manifest: dict[str, Any]
    runs: pd.DataFrame
    steps: pd.DataFrame
    planned: pd.DataFrame | None
    findings: tuple[Finding, ...]

    @property
    def name(self) -> str:
        folder = self.folder.resolve()
        return folder.parent.name if folder.name == "export" else folder.name  # analysis/results/<study>/export

    @property
    def hash(self) -> str:
        """Twelve digits that name the content of both tables."""
        return "".join(self.manifest["files"][f"{name}.parquet"]["sha256"][:6] for name in ("runs", "steps"))

    @property
    def exported_at(self) -> str:
        """The minute of the export, in UTC."""
        return f"{self.manifest['exported_at'][:16].replace('T', ' ')} UTC"

    @property
    def sentence(self) -> str:
        """'export head_count (5f0a...), 24 runs, exported 2026-01-01 00:00 UTC' for titles and notebooks."""
        return f"export {self.name} ({self.hash}), {len(self.runs)} runs, exported {self.exported_at}"


def load(folder: Path | str) -> Export:
    """The export in a folder. Raises AnalysisError where there is none, or it is damaged or of a newer schema."""
    folder = Path(folder)
    manifest = _manifest(folder)
    runs, steps = (_table(folder / f"{name}.parquet") for name in ("runs", "steps"))
    runs = _with_current_names(runs)
    if "run_id" in runs:
        refuse_repeated_ids(runs)
    planned = None if manifest.get("planned") is None else _planned(manifest["planned"])
    return Export(folder, manifest, runs, steps, planned, tuple(_findings(folder, manifest)))


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = decode(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        way_out = f"write one with: python -m src.export runs/<group> --out {folder}"
        raise AnalysisError(f"{folder} is no export: it has no {MANIFEST}; {way_out}") from None
    except (OSError, ValueError) as error:
        raise AnalysisError(f"{path} cannot be read: {error}; export again") from None
    version = manifest.get("schema_version") if isinstance(manifest, dict) else None
    if version != SCHEMA_VERSION:
        newer = isinstance(version, int) and version > SCHEMA_VERSION
        way_out = "update headcount" if newer else "export again"
        raise AnalysisError(f"{path} has schema_version {version}; this code reads {SCHEMA_VERSION}: {way_out}")
    return manifest


def _table(path: Path) -> pd.DataFrame:
    try:
        return to_pandas(parquet.read_table(path))
    except (OSError, ArrowException) as error:
        reason = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error}"
        raise AnalysisError(f"{path} {reason}; export again (python -m src.export)") from None


def _with_current_names(runs: pd.DataFrame) -> pd.DataFrame:
    """The table without the columns by which older exports repeated others; what only those knew is kept."""
    runs = runs.copy()
    for former, name in FORMER.items():
        if former in runs.columns:
            known = runs.pop(former)
            runs[name] = runs[name].fillna(known) if name in runs.columns else known
    return runs


def _planned(entries: list[dict[str, Any]]) -> pd.DataFrame:
    rows = []
    for entry in entries:
        # What the tables say of a run counts; here is how a run without a row stands.
        status, reason = NOT_RUN, None
        if entry["status"] == "damaged":
            status, reason = "failed", f"its record is damaged: {entry['reason']}"
        elif entry["status"] == "skipped":
            status, reason = "skipped", entry["reason"]
        values = {_column(name): value for name, value in entry["values"].items()}
        rows.append({"run_id": entry["run_id"], "status": status, "error": reason, **values})
    return pd.DataFrame(rows, columns=None if rows else ["run_id", "status", "error"])


def _column(setting: str) -> str:
    return setting if setting in _SETTINGS_OF_THEIR_OWN else f"config.{setting}"


def _findings(folder: Path, manifest: dict[str, Any]) -> list[Finding]:
    found = []
    if manifest["partial"]:
        found.append(caution("export", f"the export is partial: {manifest['partial']}"))
    if manifest["left_out"]:
        items = [f"{item['run_id']} ({item['reason']})" for item in manifest["left_out"]]
        found.append(caution("export", f"{len(items)} runs are left out as they cannot be read: {some(items, 12)}"))
    changed = [
        name
        for name, facts in manifest["files"].items()
        if name.endswith(".parquet") and (folder / name).exists() and sha256(folder / name) != facts["sha256"]
    ]
    if changed:
        found.append(caution("export", f"{some(changed)} changed after the export; its account may be wrong"))
    newer = _changed_since(Path(manifest["source"]), manifest)
    if newer:
        found.append(caution("export", f"the export is stale: {some(newer)} changed since; export again"))
    return found


def _changed_since(source: Path, manifest: dict[str, Any]) -> list[str]:
    """Runs that were written after the export, where its source is still there."""
    if manifest["reader"] != "records" or not source.is_dir():
        return []
    exported = datetime.fromisoformat(manifest["exported_at"])
    files = [path for name in (RECORD, METRICS_FILE) for path in source.glob(f"*/{name}")]
    newer = {path.parent.name for path in files if datetime.fromtimestamp(path.stat().st_mtime, UTC) > exported}
    return sorted(newer)


def typed(runs: pd.DataFrame, factor: str, metric: str) -> pd.DataFrame:
    """The table with integers as integers (8, never 8.0 or "8") and metrics as floats; a fresh copy.

    Raises AnalysisError where it is empty, lacks a column, or holds a value that is no number or no status.
    """
    if runs.empty:
        raise AnalysisError(
            "the table holds no runs, so nothing can be said; run a sweep (python -m src.train -m heads=1,2,4 "
            "seed=0,1,2,3,4,5) and export it"
        )
    if metric not in METRICS:
        raise AnalysisError(f"metric {metric!r} is not declared in src/metrics.py{did_you_mean(metric, METRICS)}")
    require(runs, ("run_id", "status", "seed", factor, metric))
    table = runs.reset_index(drop=True)
    for name in table.columns:
        if name in INTEGERS:
            table[name] = integers(table[name], str(name))
        elif name in METRICS or name == factor:
            table[name] = numbers(table[name], str(name))
    if factor not in INTEGERS and (table[factor].dropna() % 1 == 0).all():
        table[factor] = integers(table[factor], factor)
    _refuse_impossible(table)
    table["status"] = table["status"].astype(str)
    unknown = sorted(set(table["status"]) - set(STATUSES))
    if unknown:
        raise AnalysisError(f"status {some(unknown)} is unknown; the table may hold {', '.join(STATUSES)}")
    return table


def refuse_repeated_ids(runs: pd.DataFrame) -> None:
    """Raises AnalysisError that names the runs which stand in two rows."""
    twice = runs["run_id"][runs["run_id"].notna() & runs["run_id"].duplicated()]
    if len(twice):
        names = some([str(run) for run in twice.unique()])
        raise AnalysisError(f"run_id {names} stands in more than one row: one row a run; export again")


def _refuse_impossible(table: pd.DataFrame) -> None:
    """Raises AnalysisError for counts that no model has."""
    for name in (name for name in COUNTS if name in table):
        wrong = table[(table[name] < 1).fillna(False).astype(bool)]
        if len(wrong):
            names = some([f"{run} ({value})" for run, value in zip(wrong["run_id"], wrong[name], strict=True)])
            raise AnalysisError(f"{name} is under 1 in {names}: no model has that; mend or leave out these rows")


def require(runs: pd.DataFrame, columns: Iterable[str]) -> None:
    """Raises AnalysisError that names the missing columns and the metrics that are there."""
    there = [str(name) for name in runs.columns]
    missing = [name for name in columns if name not in there]
    if not missing:
        return
    usable = [name for name in there if name in METRICS]
    can = f"metrics that it holds: {some(usable)}" if usable else "it holds no metric, so only its coverage can be told"
    raise AnalysisError(
        f"the table has no column {', '.join(map(repr, missing))}{did_you_mean(missing[0], there)}; {can}"
    )


def integers(column: pd.Series, name: str) -> pd.Series:
    """A column of whole numbers as Int64, missing ones as missing. No digit is lost: seeds may use all 63 bits."""
    return pd.Series([_whole(value, name) for value in column], index=column.index, dtype="Int64")


def _whole(value: object, name: str) -> int | None:
    if value is None or value is pd.NA or value is pd.NaT or str(value).strip().lower() in ("", "nan", "none", "<na>"):
        return None
    try:
        number = int(value) if isinstance(value, int | np.integer) else int(str(value))
    except ValueError:
        try:
            real = float(value)  # pyright: ignore[reportArgumentType]
        except (TypeError, ValueError):
            raise AnalysisError(f"column {name!r} holds {value!r}, which is not a number") from None
        if not real.is_integer():
            raise AnalysisError(f"column {name!r} holds {value}; whole numbers only") from None
        number = int(real)
    if abs(number) >= 2**63:
        raise AnalysisError(f"column {name!r} holds {number}, which does not fit 64 bits; use a smaller number")
    return number


def numbers(column: pd.Series, name: str) -> pd.Series:
    """A column of floats; text that reads as a number counts as one."""
    values = pd.to_numeric(column, errors="coerce").astype("float64")
    lost = column[column.notna() & values.isna() & ~column.astype(str).str.lower().isin({"nan", "none", "<na>", ""})]
    if len(lost):
        raise AnalysisError(f"column {name!r} holds {some([repr(v) for v in lost.unique()])}, which is not a number")
    return values


def with_planned(runs: pd.DataFrame, planned: pd.DataFrame) -> pd.DataFrame:
    """The runs and each planned run that has no row: what never started, or cannot be read, is accounted for too.

    Such a run is `not_run` unless `planned` has a status for it.
    """
    require(planned, ("run_id",))
    absent = planned[~planned["run_id"].isin(runs["run_id"])]
    if absent.empty:
        return runs
    absent = absent.assign(status=absent["status"].fillna(NOT_RUN) if "status" in absent else NOT_RUN)
    return pd.concat([runs.astype(object), absent.astype(object)], ignore_index=True)


def select(runs: pd.DataFrame, **settings: object) -> pd.DataFrame:
    """The rows with these values, a setting's dots written as double underscores: `model__d_model=128`."""
    chosen = runs
    for name, value in settings.items():
        setting = name.replace("__", ".")
        column = setting if setting in runs.columns else f"config.{setting}"
        require(runs, (column,))
        chosen = chosen[chosen[column] == value]
    return chosen
