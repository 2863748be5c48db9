"""A group of run folders as a source: reads record.json and metrics.jsonl, and writes nothing."""

from __future__ import annotations

from pathlib import Path

from src.errors import RunError
from src.export.planned import read_plans
from src.export.source import LeftOut, ReadRun, Source
from src.record import CHECKPOINT, CONFIG, LOCK, METRICS, RECORD, Record, read_rows

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
