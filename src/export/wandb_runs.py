"""W&B runs as records. The mirror (`src.training.sinks.wandb_mirror`) says what they hold; this reads it back.

    read_project   a project on W&B's server: the full history, asked for again, and marked where it stays partial
    read_files     a folder of W&B's run files, through `wandb leet inspect`, W&B's own reader: no server, no account

W&B does not hold when a run ended, its error, its segments, and the kernels found while it ran: those stay null.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from src.errors import RunError
from src.export.read import LeftOut, ReadRun, Source
from src.metrics import METRICS, declared
from src.record import RECORD, SCHEMA_VERSION, STATUSES, Record, Status, decode
from src.run_status import is_held
from src.sweep_file import read_plans

Values = Mapping[str, Any]
_OF_STEPS = {"train/loss", "train/learning_rate", "train/grad_norm"}
"""W&B copies the last step's numbers into its summary; a record's summary has none of these."""
_NOT_SETTINGS = ("geometry", "costs", "environment", "identity", "_wandb")
_STATUS_OF = {"finished": "finished", "running": "running", "preempting": "preempted", "preempted": "preempted"}
_STATUS_OF |= {"crashed": "killed", "killed": "killed"}
"""W&B's states in our words; it calls a run crashed that it hears no more of."""


def record_of(config: Values, summary: Values, state: str, started_at: str) -> Record:
    """The record of one W&B run. Its own word on how it ended counts; without one, W&B's `state` does.

    Raises RunError where the run was not logged by headcount.
    """
    identity = config.get("identity")
    if not isinstance(identity, Mapping) or "geometry" not in config:
        raise RunError("it was not logged by headcount: its W&B config has no identity and geometry")
    status = summary.get("status")
    if status not in STATUSES:  # cut off: its record has no summary either, and W&B's is the last step's numbers
        status, summary = _STATUS_OF.get(state, "failed"), {}
    return Record(
        run_id=str(identity.get("run_id")),
        status=cast(Status, status),
        config={name: value for name, value in config.items() if name not in _NOT_SETTINGS},
        config_hash=str(identity.get("config_hash")),
        code=dict(identity.get("code") or {}),
        data=dict(identity.get("corpus") or {}),
        environment=dict(config.get("environment") or {}),
        geometry=dict(config["geometry"]),
        costs=dict(config.get("costs") or {}),
        started_at=str(identity.get("started_at") or started_at),
        summary={name: decode(summary[name]) for name in sorted(METRICS.keys() - _OF_STEPS) if has(summary, name)},
        schema_version=SCHEMA_VERSION,
    )


def rows_of(history: Iterable[Values]) -> list[dict[str, Any]]:
    """Rows as metrics.jsonl has them; rows without a declared metric, such as a text sample's, are none."""
    rows = []
    for logged in history:
        numbers = {name: decode(logged[name]) for name in logged if declared(name) and has(logged, name)}
        if numbers:
            rows.append({"step": logged.get("_step"), "time": logged.get("_timestamp"), **numbers})
    return rows


def has(values: Values, name: str) -> bool:
    return values.get(name) is not None


ATTEMPTS = 5
FIRST_WAIT_S = 1.0
TIMEOUT_S = 300
Result = TypeVar("Result")
Sleep = Callable[[float], None]


class Api(Protocol):
    """The part of wandb.Api that is used."""

    def runs(self, path: str, filters: dict[str, Any] | None = None) -> Any: ...


def read_project(path: str, group: str | None = None, api: Api | None = None, sleep: Sleep = time.sleep) -> Source:
    """Every run of `<entity>/<project>`, of one group if named.

    A run that stays unreadable after ATTEMPTS is left out, and the source says that it is partial. Raises
    RunError where the server cannot be asked or the project holds no run.
    """
    found = api if api is not None else _api()
    filters = {"group": group} if group else None
    partial: list[str] = []
    try:
        listed = retried(lambda: list(found.runs(path, filters=filters)), sleep)
    except Exception as error:
        raise RunError(f"W&B's server does not list the runs of {path}: {_line(error)}") from None
    if not listed:
        raise RunError(f"the W&B project {path} has no runs" + (f" in group {group}" if group else ""))
    runs: dict[str, ReadRun] = {}
    left_out = []
    for run in listed:
        try:
            read = retried(lambda run=run: _read(run), sleep)
        except RunError as error:
            left_out.append(LeftOut(str(run.id), str(error)))
        except Exception as error:
            left_out.append(LeftOut(str(run.id), f"not read after {ATTEMPTS} attempts: {_line(error)}"))
            partial.append(str(run.id))
        else:
            if read.record.run_id in runs:
                left_out.append(LeftOut(str(run.id), f"a second W&B run of {read.record.run_id}"))
            else:
                runs[read.record.run_id] = read
                partial.extend([str(run.id)] if read.notes else [])
    reason = f"{len(partial)} of {len(listed)} runs could not be read whole: {', '.join(partial)}" if partial else None
    return Source("wandb server", f"{path}/{group}" if group else path, list(runs.values()), left_out, None, reason)


def retried(call: Callable[[], Result], sleep: Sleep, attempts: int = ATTEMPTS) -> Result:
    """The call's result; tried again after 1, 2, 4, ... seconds. A RunError is no trouble of the server: not again."""
    for attempt in range(attempts - 1):
        try:
            return call()
        except RunError:
            raise
        except Exception:
            sleep(FIRST_WAIT_S * 2**attempt)
    return call()


def _read(run: Any) -> ReadRun:
    # `run.history()` draws about 500 rows, others at each call; `scan_history` gives all of them.
    rows = rows_of(run.scan_history())
    record = record_of(dict(run.config), run.summary, run.state, str(run.created_at))
    last = getattr(run, "lastHistoryStep", None)
    seen = max((row["step"] for row in rows), default=-1)
    cut = isinstance(last, int) and last > seen
    return ReadRun(record, rows, str(run.id), (f"history ends at step {seen} of {last}",) if cut else ())


def _api() -> Api:
    try:
        import wandb
    except ImportError:
        raise RunError("wandb is not installed; it is needed to read from its server") from None
    try:
        return wandb.Api(timeout=30)
    except Exception as error:
        raise RunError(f"W&B's server cannot be asked: {_line(error)}; log in with `wandb login`") from None


def _line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


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
        """As W&B's server would call it."""
        return "crashed" if self.exit_code is None else "finished" if self.exit_code == 0 else "failed"


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
        read = list(pool.map(_wandb_offline_read, files))
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
    return Source("wandb files", str(folder), runs, left_out, read_plans(folder) or None)


def _run(folder: Path, pieces: list[tuple[Path, Log]]) -> ReadRun:
    pieces = sorted(pieces, key=lambda piece: piece[1].started or 0.0)
    last_file, last = pieces[-1]
    first = pieces[0][1].started
    started_at = "" if first is None else datetime.fromtimestamp(first, UTC).isoformat(timespec="milliseconds")
    history = [row for _, log in pieces for row in log.history]
    notes = () if len(pieces) == 1 else (f"mirrored in {len(pieces)} pieces",)
    run_folder = last_file.parent.parent.parent  # <run>/wandb/offline-run-*/run-*.wandb
    state = "running" if last.exit_code is None and is_held(run_folder) else last.state
    record = record_of(last.config, last.summary, state, started_at)
    rows = sorted({row["step"]: row for row in rows_of(history)}.values(), key=lambda row: row["step"])
    return ReadRun(record, rows, str(last_file.relative_to(folder)), notes)


def _wandb_offline_read(file: Path) -> Log | str:
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
