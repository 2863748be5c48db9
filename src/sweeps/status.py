"""How the runs of a group stand, read from their folders alone: quick for ten thousand of them; and its table."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from src.record import METRICS, RECORD
from src.run_status import FAILED, STATES, TO_CONTINUE, RunStatus, label_of
from src.sweep_file import read_plans
from src.sweeps.display import state_text

_TAIL_BYTES = 4096
MOST_LINES = 20


@dataclass
class Group:
    """A folder of runs, looked at again and again: a record that is over is read once."""

    folder: Path
    _over: dict[str, tuple[int, RunStatus]] = field(default_factory=dict)

    def look(self) -> list[RunStatus]:
        """Every run that was planned or is there. Raises RunError where there is no such folder."""
        planned, skipped = self._named("jobs"), self._named("skipped")
        try:
            names = [entry.name for entry in os.scandir(self.folder) if entry.is_dir()]
        except OSError as error:
            raise RunError(f"{self.folder} is not a sweep's folder (runs/<group>): {error}") from None
        values = planned | skipped
        there = {name: status for name in sorted(names) if (status := self._status(name, values.get(name))) is not None}
        if not planned and not there:
            raise RunError(f"{self.folder} holds no runs; name a sweep's folder (runs/<group>)")
        missing = [RunStatus.of(self.folder / name, planned[name]) for name in planned if name not in there]
        return [*there.values(), *missing]

    def _named(self, kind: str) -> dict[str, Mapping[str, Any]]:
        return {run["run_id"]: run["values"] for plan in read_plans(self.folder) for run in plan[kind]}

    def _status(self, name: str, values: Mapping[str, Any] | None) -> RunStatus | None:
        folder = self.folder / name
        try:
            changed = (folder / RECORD).stat().st_mtime_ns
        except OSError:
            return None
        known = self._over.get(name)
        if known is not None and known[0] == changed:
            return known[1]
        status = RunStatus.of(folder, values)
        if status.state not in ("running", "killed"):
            self._over[name] = changed, status
        return status


def seconds_left(runs: Sequence[RunStatus]) -> float | None:
    """When the runs that are under way and those not begun may be over; None while no run has ended or progressed."""
    over = [run.seconds for run in runs if run.seconds]
    running = [run for run in runs if run.state == "running"]
    if not over or not running:
        return None
    usual = median(over)
    begun = sum(usual * (1 - _share_done(run)) for run in running)
    waiting = usual * sum(run.state in ("not_run", *TO_CONTINUE) for run in runs)
    return (begun + waiting) / len(running)


def best(runs: Sequence[RunStatus]) -> RunStatus | None:
    """The finished run with the lowest validation loss."""
    finished = [run for run in runs if run.state == "finished" and run.loss is not None]
    return min(finished, key=lambda run: run.loss or 0.0, default=None)


def _share_done(run: RunStatus) -> float:
    steps = _max_steps(run)
    return (_last_step(run.folder) or 0) / steps if steps else 0.5


def _max_steps(run: RunStatus) -> int | None:
    return run.record.config.get("training", {}).get("max_steps") if run.record is not None else None


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


def status_table(folder: Path, runs: Sequence[RunStatus]) -> RenderableType:
    """What to show of these runs."""
    parts: list[RenderableType] = [_by_arm(folder, runs)]
    parts += _lines([run for run in runs if run.state == "running"], _progress)
    parts += _lines([run for run in runs if run.state in FAILED], lambda run: run.error or "")
    parts += [Text(line) for line in _footer(folder, runs)]
    return Stack(*parts)


def _by_arm(folder: Path, runs: Sequence[RunStatus]) -> Table:
    arms: dict[str, list[RunStatus]] = {}
    for run in sorted(runs, key=_order):
        arms.setdefault(_arm(run), []).append(run)
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


def _arm(run: RunStatus) -> str:
    """What a run is compared by: its settings apart from the seed."""
    return label_of({name: value for name, value in run.values.items() if name != "seed"}) or "(one arm)"


def _order(run: RunStatus) -> tuple[object, ...]:
    # Numbers by size and before text, whatever mixture the arms are made of.
    return tuple(
        (isinstance(value, str), str(value)) if not isinstance(value, int | float) else (False, f"{value:030.10f}")
        for value in run.values.values()
    )


def _lines(runs: Sequence[RunStatus], note: Callable[[RunStatus], str]) -> Iterator[Text]:
    for run in runs[:MOST_LINES]:
        yield Text.assemble("  ", state_text(run.state), f"  {run.label}  {note(run)}")
    if len(runs) > MOST_LINES:
        yield Text(f"  ... and {len(runs) - MOST_LINES} more")


def _progress(run: RunStatus) -> str:
    step, steps = _last_step(run.folder), _max_steps(run)
    if step is None:
        return "starting"
    return f"step {step:,}" + (f"/{steps:,} ({step / steps:.0%})" if steps else "")


def _footer(folder: Path, runs: Sequence[RunStatus]) -> Iterator[str]:
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
