"""manifest.json of an export: the account of every run, and what the tables can be checked against."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from src.export.columns import Columns
from src.export.planned import plan_facts, standing
from src.export.source import LeftOut, Source
from src.record import Record, now

MANIFEST = "manifest.json"
SCHEMA_VERSION = 1


def manifest_of(
    source: Source, records: Iterable[Record], left_out: list[LeftOut], files: Mapping[str, Any], columns: Columns
) -> dict[str, Any]:
    """The manifest of these tables. `planned` is null where no plan is known; lists are in the order of run ids."""
    by_id = {record.run_id: record for record in records}
    planned = None if source.plans is None else standing(source.plans, by_id, left_out)
    planned_ids = set() if planned is None else {entry["run_id"] for entry in planned}
    return {
        "schema_version": SCHEMA_VERSION,
        "exported_at": now(),
        "source": source.name,
        "reader": source.reader,
        "partial": source.partial,
        "counts": _counts(by_id, planned, left_out),
        "runs": {status: _ids(by_id, status) for status in sorted({record.status for record in by_id.values()})},
        "planned": planned,
        "missing": [] if planned is None else [e["run_id"] for e in planned if e["status"] == "not_run"],
        "unplanned": [] if planned is None else sorted(set(by_id) - planned_ids),
        "left_out": [{"run_id": item.run_id, "reason": item.reason} for item in left_out],
        "notes": [f"{run.record.run_id}: {note}" for run in source.runs for note in run.notes],
        "plans": [plan_facts(plan) for plan in source.plans or []],
        "code": _codes(by_id.values()),
        "data": sorted({str(record.data.get("hash")) for record in by_id.values()}),
        "newest_run": max((record.ended_at or record.started_at for record in by_id.values()), default=None),
        "files": dict(files),
        "columns": columns,
    }


def _counts(
    records: Mapping[str, Record], planned: list[dict[str, Any]] | None, left_out: list[LeftOut]
) -> dict[str, Any]:
    counted = Counter(record.status for record in records.values())
    missing = None if planned is None else sum(entry["status"] == "not_run" for entry in planned)
    return {
        "planned": None if planned is None else len(planned),
        "exported": len(records),
        "left_out": len(left_out),
        "missing": missing,
        **dict(sorted(counted.items())),
    }


def _ids(records: Mapping[str, Record], status: str) -> list[str]:
    return sorted(run_id for run_id, record in records.items() if record.status == status)


def _codes(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Each code identity with the number of its runs, the commonest first."""
    counted = Counter(json.dumps(record.code, sort_keys=True) for record in records)
    return [{**json.loads(code), "runs": count} for code, count in counted.most_common()]
