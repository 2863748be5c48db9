"""An export as the analysis sees it: its tables, what was planned, and what a reader must know of the export itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from pyarrow import ArrowException, parquet

from analysis.findings import AnalysisError, Finding, caution, some
from src.export.columns import FORMER
from src.export.tables import sha256, to_pandas
from src.export.write import MANIFEST, SCHEMA_VERSION
from src.record import METRICS, RECORD, decode

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
        status, reason = "not_run", None
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
    files = [path for name in (RECORD, METRICS) for path in source.glob(f"*/{name}")]
    newer = {path.parent.name for path in files if datetime.fromtimestamp(path.stat().st_mtime, UTC) > exported}
    return sorted(newer)
