"""runs/<group>/sweep.json: what was planned, so that export can say what is missing.

    {"schema_version": 1, "plans": [<oldest>, ..., <newest>]}

A plan says `command` (the arguments), `launch_dir`, `planned_at`, `code`, `sweep` (the file's name), `question`,
`factors` (what varies, the seed apart), `arms`, `seeds`, `margin_nats`, and

    jobs       [{"run_id", "overrides", "values", "state"}]   `state`: when the command last ended; null before
    skipped    [{"run_id", "overrides", "values", "reason"}]  points that cannot be

A newer plan that holds all jobs of an older one takes its place; so a sweep that grows stays one plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from src.errors import RunError
from src.record import encode, now, write_atomically
from src.training.environment import code_identity

if TYPE_CHECKING:
    from src.sweeps.plan import SweepPlan

MANIFEST, _LOCK = "sweep.json", ".sweep.lock"
SCHEMA_VERSION = 1


def write_plan(plan: SweepPlan, command: Sequence[str], sweep: str | None, question: str | None) -> None:
    """Adds the plan to its group's manifest. Raises RunError where the folder cannot be written."""
    entry = {
        "command": list(command),
        "launch_dir": str(plan.launch_dir),
        "planned_at": now(),
        "code": code_identity(),
        "sweep": sweep,
        "question": question,
        "factors": plan.varying,
        "arms": plan.arms,
        "seeds": plan.seeds,
        "margin_nats": plan.config.sweep.margin_nats,
        "jobs": [
            {"run_id": job.run_id, "overrides": list(job.overrides), "values": job.values, "state": None}
            for job in plan.jobs
        ],
        "skipped": [
            {
                "run_id": skipped_id(point.overrides),
                "overrides": list(point.overrides),
                "values": point.values,
                "reason": point.reason,
            }
            for point in plan.invalid
        ],
    }
    with _held(plan.group):
        kept = [old for old in read_plans(plan.group) if not _ids(old) <= _ids(entry)]
        _write(plan.group, [*kept, entry])


def note_states(plan: SweepPlan, states: Mapping[str, str]) -> None:
    """Notes how the jobs stand now that the command ends, in every plan that names them."""
    with _held(plan.group):
        plans = read_plans(plan.group)
        for entry in plans:
            for job in entry["jobs"]:
                job["state"] = states.get(job["run_id"], job["state"])
        _write(plan.group, plans)


def read_plans(group: Path) -> list[dict[str, Any]]:
    """The plans of a group, the newest last; none where there is no manifest.

    Raises RunError where it cannot be read or is of a newer schema.
    """
    path = group / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise RunError(f"{path} is not readable as JSON: {error}") from None
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        raise RunError(f"{path} has schema_version {version}; this code reads {SCHEMA_VERSION}")
    return content["plans"]


def skipped_id(overrides: Sequence[str]) -> str:
    """The name of a point that has no run, because there is no such model."""
    return "skipped-" + hashlib.sha256(" ".join(overrides).encode()).hexdigest()[:12]


def _ids(entry: Mapping[str, Any]) -> set[str]:
    return {job["run_id"] for job in entry["jobs"]}


def _write(group: Path, plans: list[dict[str, Any]]) -> None:
    content = {"schema_version": SCHEMA_VERSION, "plans": plans}
    write_atomically(group / MANIFEST, json.dumps(encode(content), indent=1, allow_nan=False) + "\n")


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
