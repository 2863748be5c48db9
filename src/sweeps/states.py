"""How a run stands, read from its folder alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from rich.text import Text

from src.errors import RunError
from src.record import RECORD, Record, Status
from src.training.folder import is_held

State = Literal[Status, "new", "killed", "damaged"]
"""A record's status, told apart where it says `running`: `killed` means that no process holds the run any more."""

STATES: tuple[State, ...] = (*get_args(Status), "new", "killed", "damaged")
FAILED = ("failed", "oom", "diverged", "damaged")
"""The endings that make a sweep's command fail."""
TO_CONTINUE = ("killed", "preempted", "interrupted")
RETRIED = ("failed", "oom", "damaged")
"""What the same command tries again, up to a limit. A divergence would only repeat itself."""

COLOURS = {"finished": "green", "running": "blue", "new": "dim", "not_run": "dim"} | dict.fromkeys(
    ("interrupted", "preempted", "skipped", "killed"), "yellow"
)


@dataclass(frozen=True)
class Standing:
    """How a run stands; `reason` where its folder cannot be read."""

    state: State
    record: Record | None = None
    reason: str | None = None

    @property
    def attempts(self) -> int:
        """How often it failed. Being stopped, or killed together with its sweep, is no failure of the run."""
        segments = self.record.segments if self.record is not None else []
        return sum(segment.get("status") in RETRIED for segment in segments)


def standing(folder: Path) -> Standing:
    """How the run of this folder stands now; a folder that is not there holds a new run."""
    if not (folder / RECORD).exists():
        return Standing("running" if is_held_safely(folder) else "new")
    try:
        record = Record.read(folder)
    except RunError as error:
        return Standing("damaged", reason=str(error))
    if record.status == "running" and not is_held_safely(folder):
        # Between the two looks the run may have ended, and let go.
        record = Record.read(folder)
        return Standing("killed" if record.status == "running" else record.status, record)
    return Standing(record.status, record)


def is_missing(standing: Standing, max_attempts: int, retry: bool) -> bool:
    """Whether a sweep has to run this run: new, stopped, or failed less often than the limit."""
    if standing.state in ("finished", "running"):
        return False
    if standing.state in FAILED:
        return retry or (standing.state in RETRIED and standing.attempts < max_attempts)
    return True


def is_held_safely(folder: Path) -> bool:
    """Whether a living process holds this run; a folder that cannot be written is not being run."""
    try:
        return is_held(folder)
    except OSError:
        return False


def state_text(state: str) -> Text:
    """A state as people read it."""
    words = {"new": "to run", "not_run": "not run"}
    return Text(words.get(state, state), style=COLOURS.get(state, "red"))


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
