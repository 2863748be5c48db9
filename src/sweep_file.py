"""runs/<group>/sweep.json: what was planned, so that export can say what is missing. Written and read here alone.

    {"schema_version": 1, "plans": [<oldest>, ..., <newest>]}

A plan says `command` (the arguments), `launch_dir`, `planned_at`, `code`, `sweep` (the file's name), `question`,
`factors` (what varies, the seed apart), `arms`, `seeds`, `margin_nats`, `control`, `varying`, and

    jobs       [{"run_id", "overrides", "values", "state"}]   `state`: when the command last ended; null before
    skipped    [{"run_id", "overrides", "values", "reason"}]  points that cannot be

A newer plan that holds all jobs of an older one takes its place; so a sweep that grows stays one plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from src.errors import RunError
from src.record import decode, encode, now, write_atomically

SWEEP_FILE, _LOCK = "sweep.json", ".sweep.lock"
SCHEMA_VERSION = 1
Plan = Mapping[str, Any]
"""A plan as the file holds it."""


@dataclass(frozen=True)
class PlannedPoint:
    """One point of a sweep: what it sets, and why it cannot be (`reason`), or None where it is the run `run_id`."""

    run_id: str
    overrides: Sequence[str]
    values: Mapping[str, Any]
    reason: str | None = None


def add_plan(group: Path, points: Sequence[PlannedPoint], **about: Any) -> None:
    """Adds a plan to its group's file; `about` are its other entries.

    Raises RunError where the folder cannot be written.
    """
    jobs = [{**_entry(point), "state": None} for point in points if point.reason is None]
    skipped = [{**_entry(point), "reason": point.reason} for point in points if point.reason is not None]
    plan = {**about, "planned_at": now(), "jobs": jobs, "skipped": skipped}
    with _held(group):
        kept = [old for old in read_plans(group) if not _ids(old) <= _ids(plan)]
        _write(group, [*kept, plan])


def note_states(group: Path, states: Mapping[str, str]) -> None:
    """Notes how the jobs (by run id) stand now that the command ends, in every plan that names them."""
    with _held(group):
        plans = read_plans(group)
        for plan in plans:
            for job in plan["jobs"]:
                job["state"] = states.get(job["run_id"], job["state"])
        _write(group, plans)


def read_plans(group: Path) -> list[dict[str, Any]]:
    """The plans of a group, the newest last; none where there is no such file.

    Raises RunError where it cannot be read or is of a newer schema.
    """
    path = group / SWEEP_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise RunError(f"{path} is not readable as JSON: {error}; move it away to go on without a plan") from None
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        raise RunError(f"{path} has schema_version {version}; this code reads {SCHEMA_VERSION}")
    return [decode(plan) for plan in content["plans"]]


def skipped_id(overrides: Sequence[str]) -> str:
    """The name of a point that has no run, because there is no such model."""
    return "skipped-" + hashlib.sha256(" ".join(overrides).encode()).hexdigest()[:12]


def _entry(point: PlannedPoint) -> dict[str, Any]:
    return {"run_id": point.run_id, "overrides": list(point.overrides), "values": dict(point.values)}


def _ids(plan: Plan) -> set[str]:
    return {job["run_id"] for job in plan["jobs"]}


def _write(group: Path, plans: list[dict[str, Any]]) -> None:
    content = {"schema_version": SCHEMA_VERSION, "plans": plans}
    write_atomically(group / SWEEP_FILE, json.dumps(encode(content), indent=1, allow_nan=False) + "\n")


@contextmanager
def _held(group: Path) -> Iterator[None]:
    try:
        group.mkdir(parents=True, exist_ok=True)
        with FileLock(group / _LOCK, timeout=30):
            yield
    except Timeout:
        raise RunError(f"{group / _LOCK} is held by another process for over 30 s; try again") from None
    except OSError as error:
        raise RunError(f"the sweep's folder {group} cannot be used: {error}; choose another runs_dir") from None
