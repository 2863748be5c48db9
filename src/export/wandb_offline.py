"""A folder of W&B run files as a source: no server, no account. `wandb leet inspect` is W&B's own reader of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from src.errors import RunError
from src.export.planned import read_plans
from src.export.source import LeftOut, ReadRun, Source
from src.export.wandb_records import record_of, rows_of
from src.record import RECORD

TIMEOUT_S = 300


@dataclass
class Log:
    """What one W&B file says. `exit_code` is None where the run was cut off."""

    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    history: list[Mapping[str, Any]] = field(default_factory=list)
    started: float | None = None
    exit_code: int | None = None

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> Log:
        """The log of a file's records in their order."""
        log = cls()
        for record in records:
            content = record.get(record.get("type", ""), {})
            match record.get("type"):
                case "run":
                    log.config |= content.get("config", {}).get("update", {})
                    log.started = _unix(content.get("start_time")) or log.started
                case "config":
                    log.config |= content.get("update", {})
                case "summary":
                    log.summary |= content.get("update", {})
                case "history":
                    step = content.get("step", {}).get("num")
                    log.history.append({"_step": step, **content.get("item", {})})
                case "exit":
                    log.exit_code = content.get("exit_code", 0)
        return log

    @property
    def state(self) -> str:
        if self.exit_code is None:
            return "running"
        return "finished" if self.exit_code == 0 else "failed"


def holds_only_wandb(folder: Path) -> bool:
    """Whether a folder has W&B files and no records, of its own or of groups in it."""
    if not folder.is_dir() or any(any(folder.glob(f"{depth}{RECORD}")) for depth in ("", "*/", "*/*/")):
        return False
    return bool(_files(folder))


def read_files(folder: Path) -> Source:
    """Every run of a folder's W&B files. Several files of one run (it was stopped and continued) are one series.

    Raises RunError where there is none, or wandb is not installed.
    """
    files = _files(folder)
    if not files:
        raise RunError(f"{folder} holds no W&B run files (offline-run-*/run-*.wandb)")
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        read = list(pool.map(_read, files))
    pieces: dict[str, list[tuple[Path, Log]]] = {}
    left_out = []
    for file, found in zip(files, read, strict=True):
        run_id = found.config.get("identity", {}).get("run_id") if isinstance(found, Log) else None
        if isinstance(found, str):
            left_out.append(LeftOut(file.stem, found))
        elif run_id is None:
            left_out.append(LeftOut(file.stem, "it was not logged by headcount, or was cut off before its config"))
        else:
            pieces.setdefault(run_id, []).append((file, found))
    runs = []
    for run_id, found in pieces.items():
        try:
            runs.append(_run(folder, found))
        except RunError as error:
            left_out.append(LeftOut(run_id, str(error)))
    return Source("wandb files", str(folder), runs, left_out, read_plans(folder))


def _run(folder: Path, pieces: list[tuple[Path, Log]]) -> ReadRun:
    pieces = sorted(pieces, key=lambda piece: piece[1].started or 0.0)
    last_file, last = pieces[-1]
    first = pieces[0][1].started
    started_at = "" if first is None else datetime.fromtimestamp(first, UTC).isoformat(timespec="milliseconds")
    history = [row for _, log in pieces for row in log.history]
    notes = () if len(pieces) == 1 else (f"mirrored in {len(pieces)} pieces",)
    record = record_of(last.config, last.summary, last.state, started_at)
    rows = sorted({row["step"]: row for row in rows_of(history)}.values(), key=lambda row: row["step"])
    return ReadRun(record, rows, str(last_file.relative_to(folder)), notes)


def _read(file: Path) -> Log | str:
    """The log of a file, or why it cannot be read."""
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(file)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
        records = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    except subprocess.TimeoutExpired:
        return f"{file.name}: W&B's reader gave no answer within {TIMEOUT_S} s"
    except ValueError as error:
        return f"{file.name}: W&B's reader gave no JSON: {error}"
    if "No module named" in done.stderr:
        raise RunError("wandb is not installed; it is needed to read W&B files (the records need nothing)")
    if done.returncode or not records:
        return f"{file.name} cannot be read: {(done.stderr.strip() or 'it is empty').splitlines()[-1]}"
    return Log.of(records)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.wandb"))


def _unix(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
