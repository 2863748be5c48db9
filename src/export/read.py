"""What any reader gives of a group (`Source`), and the reader of run folders: it writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from src.errors import RunError
from src.record import CHECKPOINT, CONFIG, LOCK, METRICS, RECORD, Record, Status, read_rows
from src.run_status import RunStatus
from src.sweep_file import read_plans

Reader = Literal["records", "wandb files", "wandb server"]
_LEFT_BY_A_RUN = (RECORD, METRICS, CONFIG, CHECKPOINT, LOCK)


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
    plans: Sequence[Mapping[str, Any]] | None = None
    partial: str | None = None


def read_group(group: Path) -> Source:
    """Every run of `runs/<group>`. A damaged one, and a copy of another, is left out with its reason.

    Raises RunError where the folder is not there or holds neither runs nor a plan.
    """
    if not group.is_dir():
        raise RunError(f"{group} is not there; give the folder of a sweep, runs/<group>{_groups_beside(group)}")
    if (group / RECORD).exists():
        raise RunError(f"{group} is one run; export its group instead: {group.parent}")
    plans = read_plans(group) or None
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
    status = RunStatus.of(folder)
    if status.record is None:
        raise RunError(status.problem or f"{folder} holds no {RECORD}")
    try:
        rows = list(read_rows(folder))
    except OSError as error:
        raise RunError(f"{folder.name} cannot be read: {error.strerror}") from None
    record = replace(status.record, status=cast(Status, status.state))  # killed, where it says running
    notes = () if rows or record.status != "finished" else ("finished without a row in metrics.jsonl",)
    return ReadRun(record, rows, folder.name, notes)


def _holds_runs(folder: Path) -> bool:
    return any(path.is_dir() and is_run_folder(path) for path in folder.iterdir())


def _groups_beside(group: Path) -> str:
    if not group.parent.is_dir():
        return ""
    groups = [path.name for path in sorted(group.parent.iterdir()) if path.is_dir() and _holds_runs(path)]
    return f"; {group.parent} holds {', '.join(groups[:12])}" if groups else ""
