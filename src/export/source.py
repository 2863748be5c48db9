"""What any reader gives: the runs it could read, and those it could not, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from src.record import Record

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
