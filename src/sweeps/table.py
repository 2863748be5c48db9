"""What a sweep shows: its plan before it starts, and how every job stands when its command ends."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from src.errors import RunError, in_one_line
from src.metrics import MISSING, bytes_shown, duration_shown, shown
from src.sweeps.plan import Estimate, Job, SweepPlan
from src.sweeps.states import FAILED, TO_CONTINUE, State, state_text
from src.sweeps.tuning import CHOSEN, choose_rates


@dataclass(frozen=True)
class Row:
    """One job as it stands. `note`: why it is not finished."""

    job: Job
    state: State
    note: str = ""
    loss: float | None = None
    speed: float | None = None


def row(job: Job, said: str | None = None) -> Row:
    """The job as its folder says; `said` where the folder says nothing of an error."""
    standing = job.standing()
    record = standing.record
    note = standing.reason or said or ""
    summary = record.summary if record is not None else {}
    if record is not None and record.error is not None:
        note = in_one_line(record.error["type"], record.error["message"])
    return Row(job, standing.state, note, summary.get("val/loss"), summary.get("train/tokens_per_second"))


def print_plan(
    console: Console, plan: SweepPlan, title: str, estimate: Estimate | None, workers: int, rows: Sequence[Row]
) -> None:
    """The plan: what is asked for, what of it is done, refused or merged, and what the rest may cost."""
    lines = [("plan", _arms(plan)), ("runs", _standings(rows))]
    if plan.merged:
        lines.append(
            ("merged", f"{_count(len(plan.merged), 'point')} that name a run already named: {_few(plan.merged)}")
        )
    missing = sum(row.job.is_missing for row in rows)
    if missing:
        lines.append(("cost", _cost(estimate, missing, workers)))
    lines.append(("folder", str(plan.group)))
    console.print(Text(title, style="bold"), soft_wrap=True)
    for name, text in lines:
        console.print(Text.assemble((f"  {name:<8} ", "bold"), text), soft_wrap=True)
    for point in plan.invalid:
        console.print(Text.assemble(("  invalid  ", "yellow"), f"{point.label}: {point.reason}"), soft_wrap=True)


def print_ending(console: Console, plan: SweepPlan, rows: Sequence[Row]) -> None:
    """Every job by name and state, then what to type next."""
    names = list(dict.fromkeys(name for row in rows for name in row.job.values))
    table = Table(box=box.SIMPLE, title_justify="left")
    for name in names or ["run"]:
        table.add_column(name.rpartition(".")[2], justify="right", no_wrap=True)
    for title in ("state", "val loss", "training"):
        table.add_column(title, justify="left" if title == "state" else "right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in rows:
        cells = [str(row.job.values[name]) for name in names] or [row.job.run_id]
        table.add_row(
            *cells, state_text(row.state), shown("val/loss", row.loss), shown("train/tokens_per_second", row.speed),
            Text(row.note),
        )  # fmt: skip
    for point in plan.invalid:
        cells = [str(point.values.get(name, MISSING)) for name in names]
        table.add_row(*cells, state_text("skipped"), MISSING, MISSING, Text(point.reason))
    console.print(table)
    for line in next_steps(plan, rows):
        console.print(Text(line), soft_wrap=True)


def print_rates(console: Console, group: Path) -> None:
    """The learning rate chosen for each arm, and how later sweeps take it; or why none can be chosen yet."""
    try:
        chosen = choose_rates(group)
    except RunError as error:
        console.print(Text(f"no learning rates chosen: {error}"), soft_wrap=True)
        return
    table = Table(box=box.SIMPLE, title=Text("chosen learning rates"), title_justify="left")
    for title in ("arm", "learning rate", "mean val loss", ""):
        table.add_column(title, justify="left" if title in ("arm", "") else "right")
    for each in chosen:
        arm = " ".join(f"{name}={value}" for name, value in each.arm.items()) or "the only arm"
        edge = "at the edge of those tried: try further ones" if each.is_at_edge else ""
        loss = each.tried[each.learning_rate]
        table.add_row(Text(arm), f"{each.learning_rate:g}", shown("val/loss", loss), Text(edge, style="yellow"))
    console.print(table)
    path = shlex.quote(str(group / CHOSEN))
    console.print(Text(f"next     with other seeds: -m ... training.learning_rate_from={path}"), soft_wrap=True)


def next_steps(plan: SweepPlan, rows: Sequence[Row]) -> Iterator[str]:
    """How many jobs ended how, where they are, and the command to type next."""
    where = shlex.quote(str(plan.group))
    yield f"sweep    {_tally(rows)}"
    yield f"runs     {where}"
    failed = [row for row in rows if row.state in FAILED]
    missing = [row for row in rows if row.state in (*TO_CONTINUE, "new", "not_run")]
    if missing:
        yield "next     the same command again: it runs what is missing"
    elif failed and any(row.job.is_missing for row in failed):
        yield "next     the same command again: it retries what failed"
    elif failed:
        yield f"next     python -m src.sweep retry {where}"
    else:
        yield f"next     python -m src.export {where} --out exports/{plan.group.name}"
    for row in failed[:3]:
        yield f"         {row.job.label}: {shlex.quote(str(row.job.folder))}"


def _arms(plan: SweepPlan) -> str:
    arms, seeds = len(plan.arms), len(plan.seeds)
    of = f" ({', '.join(plan.varying)})" if plan.varying else ""
    return f"{_count(len(plan.jobs), 'job')}: {_count(arms, 'arm')}{of} x {_count(seeds, 'seed')}"


def _standings(rows: Sequence[Row]) -> str:
    counts: Counter[str] = Counter()
    for row in rows:
        if not row.job.is_missing:
            exhausted = row.state in FAILED
            counts[
                "running elsewhere"
                if row.state == "running"
                else f"{row.state}, not retried"
                if exhausted
                else row.state
            ] += 1
        elif row.state in TO_CONTINUE:
            counts["to be continued"] += 1
        elif row.state in FAILED:
            counts["to be retried"] += 1
        else:
            counts["to run"] += 1
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _cost(estimate: Estimate | None, missing: int, workers: int) -> str:
    if estimate is None:
        return "not known: no finished run is like these"
    at_once = f" with {workers} at once" if workers > 1 else ""
    return (
        f"about {duration_shown(estimate.seconds / max(1, workers))} for {_count(missing, 'job')}{at_once}, "
        f"{bytes_shown(round(estimate.bytes))} on disk (by {_count(estimate.runs, 'finished run')})"
    )


def _tally(rows: Sequence[Row]) -> str:
    counts = Counter(row.state.replace("_", " ") for row in rows)
    return f"{_count(len(rows), 'job')}: " + ", ".join(f"{count} {state}" for state, count in counts.items())


def _few(labels: Sequence[str]) -> str:
    return "; ".join(labels[:3]) + (" ..." if len(labels) > 3 else "")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
