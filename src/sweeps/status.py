"""How the runs of a group stand, read from their folders alone: quick for ten thousand of them."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import mean, median
from typing import Any

from rich import box
from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from src.errors import RunError
from src.metrics import duration_shown, shown
from src.record import METRICS, RECORD, decode
from src.sweeps.manifest import read_plans
from src.sweeps.states import FAILED, STATES, State, is_held_safely, label_of, state_text

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


# The table that `python -m src.sweep status` shows: arms, what runs, what failed, and when it may be over.
MOST_LINES = 20


def status_table(folder: Path, runs: Sequence[Seen]) -> RenderableType:
    """What to show of these runs."""
    parts: list[RenderableType] = [_by_arm(folder, runs)]
    parts += _lines([run for run in runs if run.state == "running"], _progress)
    parts += _lines([run for run in runs if run.state in FAILED], lambda run: run.error or "")
    parts += [Text(line) for line in _footer(folder, runs)]
    return Stack(*parts)


def _by_arm(folder: Path, runs: Sequence[Seen]) -> Table:
    arms: dict[str, list[Seen]] = {}
    for run in sorted(runs, key=_order):
        arms.setdefault(run.arm, []).append(run)
    states = [state for state in STATES if any(run.state == state for run in runs)]
    table = Table(title=Text(str(folder)), title_justify="left", box=box.SIMPLE)
    table.add_column("arm")
    for state in states:
        table.add_column(state_text(state), justify="right")
    table.add_column("mean val loss", justify="right")
    table.add_column("best", justify="right")
    for arm, members in arms.items():
        counts = Counter(run.state for run in members)
        losses = [run.loss for run in members if run.state == "finished" and run.loss is not None]
        table.add_row(
            Text(arm),
            *(str(counts[state] or "") for state in states),
            shown("val/loss", mean(losses) if losses else None),
            shown("val/loss", min(losses, default=None)),
        )
    return table


def _order(run: Seen) -> tuple[object, ...]:
    # Numbers by size and before text, whatever mixture the arms are made of.
    return tuple(
        (isinstance(value, str), str(value)) if not isinstance(value, int | float) else (False, f"{value:030.10f}")
        for value in run.values.values()
    )


def _lines(runs: Sequence[Seen], note: object) -> Iterator[Text]:
    assert callable(note)
    for run in runs[:MOST_LINES]:
        yield Text.assemble("  ", state_text(run.state), f"  {run.label}  {note(run)}")
    if len(runs) > MOST_LINES:
        yield Text(f"  ... and {len(runs) - MOST_LINES} more")


def _progress(run: Seen) -> str:
    if run.step is None:
        return "starting"
    return f"step {run.step:,}" + (f"/{run.steps:,} ({run.step / run.steps:.0%})" if run.steps else "")


def _footer(folder: Path, runs: Sequence[Seen]) -> Iterator[str]:
    counts = Counter(run.state for run in runs)
    done = counts["finished"]
    planned = max(1, len(runs) - counts["skipped"])
    yield f"{done:,} of {planned:,} finished ({done / planned:.0%})"
    left = seconds_left(runs)
    if left is not None:
        yield f"about {duration_shown(left)} left, as {counts['running']} run at once"
    winner = best(runs)
    if winner is not None:
        yield f"lowest val loss {shown('val/loss', winner.loss)}: {winner.label}"
    if any(counts[state] for state in FAILED):
        yield f"to run failed ones again: python -m src.sweep retry {shlex.quote(str(folder))}"
