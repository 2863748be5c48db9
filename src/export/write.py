"""The folder of an export, from any source: the tables, and manifest.json, the account of every run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from src.errors import RunError
from src.export.columns import Columns, identity, run_columns, step_columns
from src.export.read import LeftOut, ReadRun, Source
from src.export.tables import Row, run_row, step_rows, table_of, write_table
from src.record import Record, encode, now, write_atomically

MANIFEST = "manifest.json"
SCHEMA_VERSION = 1
_TOLD = ("command", "sweep", "question", "planned_at", "factors", "arms", "seeds", "margin_nats", "code")
"""What a manifest tells of a plan; where it was launched stays behind."""
_TOLD_WHERE_SET = ("control", "varying")


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
        manifest = _manifest(source, (run.record for run in rows.kept), rows.left_out, files, columns)
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


@dataclass
class _Rows:
    """The rows of what fits the columns; what does not fit is left out whole."""

    runs: list[Row]
    steps: list[Row]
    kept: list[ReadRun]
    left_out: list[LeftOut]


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


def _manifest(
    source: Source, records: Iterable[Record], left_out: list[LeftOut], files: Mapping[str, Any], columns: Columns
) -> dict[str, Any]:
    """The manifest of these tables. `planned` is null where no plan is known; lists are in the order of run ids;
    `identity` lists the settings in which runs must agree to be comparable, the factor and the seed apart."""
    by_id = {record.run_id: record for record in records}
    planned = None if source.plans is None else _planned(source.plans, by_id, left_out)
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
        "plans": [_told(plan) for plan in source.plans or []],
        "code": _codes(by_id.values()),
        "data": sorted({str(record.data.get("hash")) for record in by_id.values()}),
        "newest_run": max((record.ended_at or record.started_at for record in by_id.values()), default=None),
        "files": dict(files),
        "identity": identity(columns),
        "columns": columns,
    }


def _planned(
    plans: Sequence[Mapping[str, Any]], records: Mapping[str, Record], left_out: Sequence[LeftOut]
) -> list[dict[str, Any]]:
    """Every planned run once: run_id, values (what sets it apart, its seed among them), status, reason.

    `damaged` has a folder that cannot be read, `not_run` none; `skipped` is a point that cannot be.
    """
    damaged = {item.run_id: item.reason for item in left_out}
    found: dict[str, dict[str, Any]] = {}
    for plan in plans:
        for job in plan["jobs"]:
            run_id = job["run_id"]
            record = records.get(run_id)
            status = record.status if record else "damaged" if run_id in damaged else "not_run"
            found[run_id] = _planned_run(plan, job, status, damaged.get(run_id))
        for point in plan["skipped"]:
            found[point["run_id"]] = _planned_run(plan, point, "skipped", point["reason"])
    return list(found.values())


def _planned_run(plan: Mapping[str, Any], point: Mapping[str, Any], status: str, reason: str | None) -> dict[str, Any]:
    values = dict(point["values"])
    if "seed" not in values and len(plan["seeds"]) == 1:
        values["seed"] = plan["seeds"][0]
    return {"run_id": point["run_id"], "values": values, "status": status, "reason": reason}


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


def _told(plan: Mapping[str, Any]) -> dict[str, Any]:
    named = {name: plan[name] for name in _TOLD_WHERE_SET if plan.get(name) is not None}
    return {name: plan.get(name) for name in _TOLD} | named
