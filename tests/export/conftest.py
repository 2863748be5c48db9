"""Groups of runs made by hand: records and rows as training leaves them, without training anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from src.config import Config
from src.costs import Costs
from src.export.read import read_group
from src.export.tables import to_pandas
from src.export.write import write_export
from src.geometry import Geometry
from src.io_spec import TokenSpec
from src.record import METRICS, Record, encode_row

MakeRun = Callable[..., Record]
Exported = Callable[..., tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]]


@pytest.fixture
def group(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "some"


@pytest.fixture
def make_run(group: Path, config: Callable[..., Config]) -> MakeRun:
    """make_run("heads=8", "kv_heads=2", seed=1, rows=[...], status="failed"): a run folder in `group`."""

    def make(*overrides: str, seed: int = 0, rows: list[dict[str, Any]] | None = None, **changes: Any) -> Record:
        settings = config(*overrides, f"seed={seed}", "group=some")
        geometry = Geometry.of(settings)
        record = Record(
            run_id=f"h{geometry.heads}-kv{geometry.kv_heads}-s{seed}",
            status="finished",
            config=settings.model_dump(),
            config_hash="0123456789ab",
            code={"version": "0.1.0", "source_hash": "5c", "commit": "c0ffee", "uncommitted_hash": None},
            data={"name": "shakespeare", "hash": "5f0a", "train_tokens": 1000},
            environment={"device": "cpu", "dtype": "float32", "threads": 1, "attention_kernel": "fused:flash"},
            geometry=geometry.as_dict(),
            costs=Costs.of(geometry, TokenSpec(80), dtype="float32").as_dict(),
            started_at="2026-01-01T00:00:00.000+00:00",
            ended_at="2026-01-01T00:01:00.000+00:00",
            summary={"val/loss": 1.5 + seed / 100, "cost/parameters": 804096, "train/mfu": None},
        )
        record = replace(record, **changes)
        folder = group / record.run_id
        folder.mkdir(parents=True)
        record.write(folder)
        given = [{"step": 10, "segment": 1, "time": 1.5, "train/loss": 2.5}] if rows is None else rows
        (folder / METRICS).write_text("".join(encode_row(row) + "\n" for row in given), encoding="utf-8")
        return record

    return make


@pytest.fixture
def plan(group: Path) -> Callable[..., None]:
    """Writes sweep.json with these jobs: plan({"h8-kv8-s0": {"heads": 8, "seed": 0}}, skipped={...}, margin=0.01)."""

    def write(jobs: dict[str, dict[str, Any]], skipped: dict[str, str] | None = None, **fields: Any) -> None:
        entry = {
            "command": ["-m", "heads=1,8"],
            "launch_dir": "/somewhere/private",
            "planned_at": "2026-01-01T00:00:00.000+00:00",
            "code": {},
            "sweep": "head_count",
            "question": "more?",
            "factors": ["heads"],
            "arms": [{"heads": 8}],
            "seeds": [0],
            "margin_nats": 0.01,
            "jobs": [{"run_id": name, "overrides": [], "values": v, "state": None} for name, v in jobs.items()],
            "skipped": [
                {"run_id": name, "overrides": [], "values": {"heads": 3}, "reason": reason}
                for name, reason in (skipped or {}).items()
            ],
        }
        group.mkdir(parents=True, exist_ok=True)
        content = {"schema_version": 1, "plans": [entry | fields]}
        (group / "sweep.json").write_text(json.dumps(content), encoding="utf-8")

    return write


@pytest.fixture
def exported(group: Path, tmp_path: Path) -> Exported:
    """Exports the group and reads it back: runs, steps, manifest."""

    def export() -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]:
        out = tmp_path / "exports" / "some"
        manifest = write_export(read_group(group), out)
        return read(out, "runs"), read(out, "steps"), manifest

    return export


def read(out: Path, name: str) -> pd.DataFrame:
    import pyarrow.parquet

    return to_pandas(pyarrow.parquet.read_table(out / f"{name}.parquet"))
