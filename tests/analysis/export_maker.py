"""Exports made of tables, as src.export writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from src.export.tables import write_table
from src.export.write import SCHEMA_VERSION


def write_export(folder: Path, runs: pd.DataFrame, steps: pd.DataFrame | None = None, **manifest: Any) -> Path:
    """Tables and manifest in `folder`; keywords replace parts of the manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = pd.DataFrame({"run_id": [], "step": []}) if steps is None else steps
    files: dict[str, Any] = {}
    for name, table in (("runs", runs), ("steps", rows)):
        files |= write_table(pa.Table.from_pandas(table, preserve_index=False), folder, name)
    statuses = runs["status"].value_counts().to_dict() if "status" in runs else {}
    content: Mapping[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "exported_at": "2026-01-02T00:00:00.000+00:00",
        "source": "runs/some",
        "reader": "records",
        "partial": None,
        "counts": {"planned": None, "exported": len(runs), "left_out": 0, "missing": None, **statuses},
        "runs": {},
        "planned": None,
        "missing": [],
        "unplanned": [],
        "left_out": [],
        "notes": [],
        "plans": [],
        "code": [{"version": "0.1.0", "commit": "c0ffee", "source_hash": "5c", "uncommitted_hash": None, "runs": 1}],
        "data": ["5f0a"],
        "newest_run": None,
        "files": files,
        "columns": {},
    }
    (folder / "manifest.json").write_text(json.dumps({**content, **manifest}), encoding="utf-8")
    return folder


def curves(runs: pd.DataFrame, steps: int = 6) -> pd.DataFrame:
    """A falling loss for each run, evaluated at every step."""
    rows = [
        {"run_id": run_id, "step": 10 * s, "train/tokens": 1000 * s, "val/loss": float(loss) + 2 / s}
        for run_id, loss in zip(runs["run_id"], runs["val/loss"], strict=True)
        for s in range(1, steps + 1)
    ]
    return pd.DataFrame(rows)
