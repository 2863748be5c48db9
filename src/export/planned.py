"""What a sweep planned, read from its sweep.json (`src.sweeps.manifest` writes it), and how each of it stands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from src.errors import RunError
from src.export.source import LeftOut
from src.record import Record, decode

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
