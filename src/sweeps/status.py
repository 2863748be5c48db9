"""The table that `python -m src.sweep status` shows: arms, what runs, what failed, and when it may be over."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

from rich import box
from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from src.sweeps.states import FAILED, STATES, state_text
from src.sweeps.watch import Seen, best, seconds_left
from src.training.sinks.quantities import duration_shown, shown

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
