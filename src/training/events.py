"""What the loop says. It yields these and knows nothing of who listens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from src.record import Record


@dataclass(frozen=True)
class Started:
    """Training is about to begin (or go on after `step` steps of an earlier segment)."""

    step: int
    total_steps: int
    segment: int


@dataclass(frozen=True)
class Progress:
    """One step is done; for progress bars. `loss` is None where reading it would cost a synchronisation."""

    step: int
    total_steps: int
    loss: float | None
    tokens_per_second: float | None


@dataclass(frozen=True)
class Logged:
    """Numbers that belong to one step. All numbers of one step come in one event, steps ascend."""

    step: int
    row: Mapping[str, float | int | None]


@dataclass(frozen=True)
class Phase:
    """Something beside training is going on: 'evaluating', 'saving', 'measuring', 'sampling'; `done` of `total`."""

    name: str
    done: int
    total: int


@dataclass(frozen=True)
class Saved:
    """A checkpoint of `step` steps is on disk."""

    step: int
    path: Path


@dataclass(frozen=True)
class Sampled:
    """A continuation of `prompt` by the trained model."""

    step: int
    prompt: str
    text: str


@dataclass(frozen=True)
class Ended:
    """The run is over; `record` holds the status, the summary and the error, if any."""

    record: Record
    folder: Path


Event = Started | Progress | Logged | Phase | Saved | Sampled | Ended


class Sink(Protocol):
    """Something that listens. `write` must neither raise for its own troubles nor block; `close` is bounded."""

    def write(self, event: Event) -> None: ...

    def close(self) -> None: ...
