"""How the runs of a group stand, read from their folders alone: quick for ten thousand of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from src.errors import RunError
from src.record import METRICS, RECORD, decode
from src.sweeps.manifest import read_plans
from src.sweeps.states import State, is_held_safely, label_of

_TAIL_BYTES = 4096


@dataclass(frozen=True)
class Seen:
    """One run as it stands. `step` and `steps`: how far it is, where that is known."""

    run_id: str
    state: State
    values: Mapping[str, Any]
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    seconds: float | None = None
    error: str | None = None

    @property
    def arm(self) -> str:
        """What it is compared by: its settings apart from the seed."""
        return label_of({name: value for name, value in self.values.items() if name != "seed"}) or "(one arm)"

    @property
    def label(self) -> str:
        return label_of(self.values) or self.run_id


@dataclass
class Group:
    """A folder of runs, looked at again and again: a record that is over is read once."""

    folder: Path
    _over: dict[str, tuple[int, Seen]] = field(default_factory=dict)

    def look(self) -> list[Seen]:
        """Every run that was planned or is there. Raises RunError where there is no such folder."""
        planned, skipped = self._named("jobs"), self._named("skipped")
        try:
            names = [entry.name for entry in os.scandir(self.folder) if entry.is_dir()]
        except OSError as error:
            raise RunError(f"{self.folder} is not a sweep's folder (runs/<group>): {error}") from None
        values = planned | skipped
        there = {name: seen for name in sorted(names) if (seen := self._seen(name, values.get(name))) is not None}
        if not planned and not there:
            raise RunError(f"{self.folder} holds no runs; name a sweep's folder (runs/<group>)")
        missing = [Seen(name, "new", planned[name]) for name in planned if name not in there]
        return [*there.values(), *missing]

    def _named(self, kind: str) -> dict[str, Mapping[str, Any]]:
        return {run["run_id"]: run["values"] for plan in read_plans(self.folder) for run in plan[kind]}

    def _seen(self, name: str, values: Mapping[str, Any] | None) -> Seen | None:
        path = self.folder / name / RECORD
        try:
            changed = path.stat().st_mtime_ns
        except OSError:
            return None
        known = self._over.get(name)
        if known is not None and known[0] == changed:
            return known[1]
        seen = _read(path, values)
        if seen.state not in ("running", "killed"):
            self._over[name] = changed, seen
        return seen


def seconds_left(runs: Sequence[Seen]) -> float | None:
    """When the runs that are under way and those not begun may be over; null while no run has ended or progressed."""
    over = [run.seconds for run in runs if run.state == "finished" and run.seconds]
    running = [run for run in runs if run.state == "running"]
    if not over or not running:
        return None
    usual = median(over)
    begun = sum(usual * (1 - (run.step or 0) / run.steps) if run.steps else usual / 2 for run in running)
    waiting = usual * sum(run.state in ("new", "killed", "preempted", "interrupted") for run in runs)
    return (begun + waiting) / len(running)


def best(runs: Sequence[Seen]) -> Seen | None:
    """The finished run with the lowest validation loss."""
    finished = [run for run in runs if run.state == "finished" and run.loss is not None]
    return min(finished, key=lambda run: run.loss or 0.0, default=None)


def _read(path: Path, values: Mapping[str, Any] | None) -> Seen:
    try:
        record = json.loads(path.read_bytes())
        return _of_record(path.parent, record, values)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return Seen(path.parent.name, "damaged", values or {}, error=f"{type(error).__name__}: {error}")


def _of_record(folder: Path, record: Mapping[str, Any], values: Mapping[str, Any] | None) -> Seen:
    state, config = record["status"], record["config"]
    if values is None:
        values = {name: config[name] for name in ("heads", "kv_heads", "seed") if config.get(name) is not None}
    if state == "running" and not is_held_safely(folder):
        state = "killed"
    error = record["error"]
    return Seen(
        run_id=folder.name,
        state=state,
        values=values,
        step=_last_step(folder) if state in ("running", "killed", "preempted", "interrupted") else None,
        steps=config.get("training", {}).get("max_steps"),
        loss=decode(record["summary"].get("val/loss")),
        seconds=_seconds(record),
        error=f"{error['type']}: {error['message'].splitlines()[0] if error['message'] else ''}" if error else None,
    )


def _seconds(record: Mapping[str, Any]) -> float | None:
    if record["ended_at"] is None or len(record["segments"]) != 1:
        return None
    passed = datetime.fromisoformat(record["ended_at"]) - datetime.fromisoformat(record["started_at"])
    return max(0.0, passed.total_seconds())


def _last_step(folder: Path) -> int | None:
    for line in reversed(list(_last_lines(folder / METRICS))):
        try:
            return json.loads(line)["step"]
        except (ValueError, KeyError):
            continue  # torn
    return None


def _last_lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            yield from file.read().splitlines()
    except OSError:
        return
