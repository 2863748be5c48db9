"""What a sweep planned, read from its sweep.json (`src.sweeps.manifest` writes it), and how each of it stands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from src.errors import RunError
from src.record import CHECKPOINT, CONFIG, LOCK, METRICS, RECORD, Record, decode, read_rows

MANIFEST = "sweep.json"
PLAN_VERSION = 1
_TOLD = ("command", "sweep", "question", "planned_at", "factors", "arms", "seeds", "margin_nats", "code")

DAMAGED, NOT_RUN, SKIPPED = "damaged", "not_run", "skipped"
Plans = Sequence[Mapping[str, Any]]


def read_plans(group: Path) -> list[Mapping[str, Any]] | None:
    """The plans of a group, the newest last; None where there is no sweep.json.

    Raises RunError where it cannot be read or is of a newer schema.
    """
    path = group / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RunError(f"{path} is not readable as JSON: {error}; move it away to export without a plan") from None
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != PLAN_VERSION:
        raise RunError(f"{path} has schema_version {version}; this code reads {PLAN_VERSION}")
    return [decode(plan) for plan in content["plans"]]


def plan_facts(plan: Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest of an export tells of one plan; where it was launched stays behind."""
    return {name: plan.get(name) for name in _TOLD}


def standing(plans: Plans, records: Mapping[str, Record], left_out: Sequence[LeftOut]) -> list[dict[str, Any]]:
    """Every planned run once: run_id, values (what sets it apart, its seed among them), status, reason.

    `damaged` has a folder that cannot be read, `not_run` none; `skipped` is a point that cannot be.
    """
    damaged = {item.run_id: item.reason for item in left_out}
    found: dict[str, dict[str, Any]] = {}
    for plan in plans:
        for job in plan["jobs"]:
            run_id = job["run_id"]
            record = records.get(run_id)
            status = record.status if record else DAMAGED if run_id in damaged else NOT_RUN
            found[run_id] = _entry(plan, job, status, damaged.get(run_id))
        for point in plan["skipped"]:
            found[point["run_id"]] = _entry(plan, point, SKIPPED, point["reason"])
    return list(found.values())


def _entry(plan: Mapping[str, Any], job: Mapping[str, Any], status: str, reason: str | None) -> dict[str, Any]:
    values = dict(job["values"])
    if "seed" not in values and len(plan["seeds"]) == 1:
        values["seed"] = plan["seeds"][0]
    return {"run_id": job["run_id"], "values": values, "status": status, "reason": reason}


# What any reader gives: the runs it could read, and those it could not, with the reason.
Reader = Literal["records", "wandb files", "wandb server"]


@dataclass(frozen=True)
class ReadRun:
    """One run: its record and the rows of its steps. `place` is where it was found; `notes` what a user must know."""

    record: Record
    rows: list[dict[str, Any]]
    place: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeftOut:
    """A run that cannot be read. `run_id` may be only the name of the place that it was found in."""

    run_id: str
    reason: str


@dataclass(frozen=True)
class Source:
    """`plans`: what sweep.json planned, or None where nobody knows. `partial`: why runs may be missing, or None."""

    reader: Reader
    name: str
    runs: list[ReadRun]
    left_out: list[LeftOut] = field(default_factory=list)
    plans: list[Mapping[str, Any]] | None = None
    partial: str | None = None


# A group of run folders as a source: reads record.json and metrics.jsonl, and writes nothing.
_LEFT_BY_A_RUN = (RECORD, METRICS, CONFIG, CHECKPOINT, LOCK)


def read_group(group: Path) -> Source:
    """Every run of `runs/<group>`. A damaged one, and a copy of another, is left out with its reason.

    Raises RunError where the folder is not there or holds neither runs nor a plan.
    """
    if not group.is_dir():
        raise RunError(f"{group} is not there; give the folder of a sweep, runs/<group>{_groups_beside(group)}")
    if (group / RECORD).exists():
        raise RunError(f"{group} is one run; export its group instead: {group.parent}")
    plans = read_plans(group)
    folders = sorted(path for path in group.iterdir() if path.is_dir() and is_run_folder(path))
    if not folders and plans is None:
        inner = [path.name for path in sorted(group.iterdir()) if path.is_dir() and _holds_runs(path)]
        hint = f"; it holds the groups {', '.join(inner)}: export one of them" if inner else ""
        raise RunError(f"{group} holds no runs and no plan of a sweep{hint}")
    runs: dict[str, ReadRun] = {}
    left_out = []
    for folder in folders:
        try:
            run = _read_run(folder)
        except RunError as error:
            left_out.append(LeftOut(folder.name, str(error)))
            continue
        twin = runs.get(run.record.run_id)
        if twin is not None:
            left_out.append(LeftOut(folder.name, f"a copy of the run in {twin.place}: run_id {run.record.run_id}"))
        else:
            runs[run.record.run_id] = run
    return Source("records", str(group), list(runs.values()), left_out, plans)


def is_run_folder(folder: Path) -> bool:
    """Whether a run left something here, be it only its lock."""
    return any((folder / name).exists() for name in _LEFT_BY_A_RUN)


def _read_run(folder: Path) -> ReadRun:
    try:
        record = Record.read(folder)
        rows = list(read_rows(folder))
    except OSError as error:
        raise RunError(f"{folder.name} cannot be read: {error.strerror}") from None
    notes = () if rows or record.status != "finished" else ("finished without a row in metrics.jsonl",)
    return ReadRun(record, rows, folder.name, notes)


def _holds_runs(folder: Path) -> bool:
    return any(path.is_dir() and is_run_folder(path) for path in folder.iterdir())


def _groups_beside(group: Path) -> str:
    if not group.parent.is_dir():
        return ""
    groups = [path.name for path in sorted(group.parent.iterdir()) if path.is_dir() and _holds_runs(path)]
    return f"; {group.parent} holds {', '.join(groups[:12])}" if groups else ""
