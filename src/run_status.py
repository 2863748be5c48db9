"""How a run stands, told from its folder alone: one word for sweep, status, export and W&B's reader. No torch.

not_run        nothing has begun in its folder       running   a living process holds it
killed         its record says running, but no process holds it any more
damaged        its record cannot be read             skipped   a point of a sweep for which there is no model
finished, failed, oom, diverged, interrupted, preempted        as its record says
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

from filelock import FileLock, Timeout

from src.errors import RunError
from src.record import LOCK, RECORD, Record, Status

State = Literal[Status, "damaged"]
STATES: tuple[State, ...] = (*get_args(Status), "damaged")
FAILED = ("failed", "oom", "diverged", "damaged")
"""The endings that make a sweep's command fail."""
TO_CONTINUE = ("killed", "preempted", "interrupted")
RETRIED = ("failed", "oom", "damaged")
"""What the same command tries again, up to a limit. A divergence would only repeat itself."""


@dataclass(frozen=True)
class RunStatus:
    """How one run stands. `values`: what sets it apart from the others of its group; `problem`: what is known of an
    error that no record holds.
    """

    folder: Path
    state: State
    record: Record | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None

    @classmethod
    def of(cls, folder: Path, values: Mapping[str, Any] | None = None) -> RunStatus:
        """How the run of this folder stands now; without `values` its record says what sets it apart."""
        try:
            state, record = _state_and_record(folder)
        except RunError as error:
            return cls(folder, "damaged", None, values or {}, str(error))
        except OSError as error:
            return cls(folder, "damaged", None, values or {}, f"{folder.name} cannot be read: {error.strerror}")
        return cls(folder, state, record, _own_values(record) if values is None else values)

    @property
    def run_id(self) -> str:
        return self.folder.name

    @property
    def label(self) -> str:
        """What sets it apart, as people write it; its name where nothing does."""
        return label_of(self.values) or self.run_id

    @property
    def error(self) -> str | None:
        """Why it is not finished, in one line."""
        recorded = self.record.error_line if self.record is not None else None
        return recorded or self.problem

    @property
    def attempts(self) -> int:
        """How often it failed. Being stopped, or killed together with its sweep, is no failure of the run."""
        segments = self.record.segments if self.record is not None else []
        return sum(segment.get("status") in RETRIED for segment in segments)

    @property
    def loss(self) -> float | None:
        return self.summary.get("val/loss")

    @property
    def summary(self) -> Mapping[str, float | int | None]:
        return self.record.summary if self.record is not None else {}

    @property
    def seconds(self) -> float | None:
        """From start to end of a finished run that was never stopped; None for others, or if a clock ran backwards."""
        record = self.record
        if self.state != "finished" or record is None or record.ended_at is None or len(record.segments) != 1:
            return None
        passed = datetime.fromisoformat(record.ended_at) - datetime.fromisoformat(record.started_at)
        return passed.total_seconds() if passed.total_seconds() > 0 else None

    def is_missing(self, max_attempts: int, retry: bool) -> bool:
        """Whether a sweep has to run this run: not begun, stopped, or failed less often than the limit."""
        if self.state in ("finished", "running"):
            return False
        if self.state in FAILED:
            return retry or (self.state in RETRIED and self.attempts < max_attempts)
        return True


def is_held(folder: Path) -> bool:
    """Whether a living process holds this run; a folder that cannot be written is not being run."""
    if not (folder / LOCK).exists():
        return False
    try:
        with FileLock(folder / LOCK, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return False


def label_of(values: Mapping[str, Any]) -> str:
    """Settings as people write them.

    >>> label_of({"heads": 8, "kv_heads": None, "device": "cuda:1", "training.compile": True})
    'heads=8 kv_heads=null device=cuda:1 training.compile=true'
    """
    words = {None: "null", True: "true", False: "false"}
    written = {
        name: words[value] if value is None or isinstance(value, bool) else value for name, value in values.items()
    }
    return " ".join(f"{name}={value}" for name, value in written.items())


def _state_and_record(folder: Path) -> tuple[State, Record | None]:
    if not (folder / RECORD).exists():
        return ("running" if is_held(folder) else "not_run"), None
    record = Record.read(folder)
    if record.status == "running" and not is_held(folder):
        record = Record.read(folder)  # between the two looks the run may have ended, and let go
        return ("killed" if record.status == "running" else record.status), record
    return record.status, record


def _own_values(record: Record | None) -> dict[str, Any]:
    config = record.config if record is not None else {}
    return {name: config[name] for name in ("heads", "kv_heads", "seed") if config.get(name) is not None}
