"""What a sweep shows: its plan before it starts, and how every job stands when its command ends."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from src.errors import RunError
from src.metrics import MISSING, bytes_shown, duration_shown, shown
from src.run_status import FAILED, TO_CONTINUE, RunStatus
from src.sweeps.estimate import Estimate
from src.sweeps.plan import SweepPlan
from src.sweeps.tuning import CHOSEN, choose_rates

_COLOURS = {"finished": "green", "running": "blue", "not_run": "dim"} | dict.fromkeys(
    ("interrupted", "preempted", "skipped", "killed"), "yellow"
)


def state_text(state: str) -> Text:
    """A state as people read it."""
    return Text(state.replace("_", " "), style=_COLOURS.get(state, "red"))


def print_plan(
    console: Console,
    plan: SweepPlan,
    title: str,
    estimate: Estimate | None,
    workers: int,
    statuses: Sequence[RunStatus],
) -> None:
    """The plan: what is asked for, what of it is done, refused or merged, and what the rest may cost."""
    missing = [job.has_to_run(status) for job, status in zip(plan.jobs, statuses, strict=True)]
    lines = [("plan", _arms(plan)), ("runs", _how_they_stand(statuses, missing))]
    if plan.merged:
        lines.append(
            ("merged", f"{_count(len(plan.merged), 'point')} that name a run already named: {_few(plan.merged)}")
        )
    if any(missing):
        lines.append(("cost", _cost(estimate, sum(missing), workers)))
    lines.append(("folder", str(plan.group)))
    console.print(Text(title, style="bold"), soft_wrap=True)
    for name, text in lines:
        console.print(Text.assemble((f"  {name:<8} ", "bold"), text), soft_wrap=True)
    for point in plan.invalid:
        console.print(Text.assemble(("  invalid  ", "yellow"), f"{point.label}: {point.reason}"), soft_wrap=True)


def print_ending(console: Console, plan: SweepPlan, statuses: Sequence[RunStatus]) -> None:
    """Every job by name and state, then what to type next."""
    names = list(dict.fromkeys(name for status in statuses for name in status.values))
    table = Table(box=box.SIMPLE, title_justify="left")
    for name in names or ["run"]:
        table.add_column(name.rpartition(".")[2], justify="right", no_wrap=True)
    for title in ("state", "val loss", "training"):
        table.add_column(title, justify="left" if title == "state" else "right", no_wrap=True)
    table.add_column("", overflow="fold")
    for status in statuses:
        cells = [str(status.values[name]) for name in names] or [status.run_id]
        speed = shown("train/tokens_per_second", status.summary.get("train/tokens_per_second"))
        table.add_row(
            *cells, state_text(status.state), shown("val/loss", status.loss), speed, Text(status.error or "")
        )  # fmt: skip
    for point in plan.invalid:
        cells = [str(point.values.get(name, MISSING)) for name in names]
        table.add_row(*cells, state_text("skipped"), MISSING, MISSING, Text(point.reason))
    console.print(table)
    for line in next_steps(plan, statuses):
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


def next_steps(plan: SweepPlan, statuses: Sequence[RunStatus]) -> Iterator[str]:
    """How many jobs ended how, where they are, and the command to type next."""
    where = shlex.quote(str(plan.group))
    yield f"sweep    {_tally(statuses)}"
    yield f"runs     {where}"
    pairs = list(zip(plan.jobs, statuses, strict=True))
    failed = [(job, status) for job, status in pairs if status.state in FAILED]
    if any(status.state in (*TO_CONTINUE, "not_run") for status in statuses):
        yield "next     the same command again: it runs what is missing"
    elif any(job.has_to_run(status) for job, status in failed):
        yield "next     the same command again: it retries what failed"
    elif failed:
        yield f"next     python -m src.sweep retry {where}"
    else:
        yield f"next     python -m src.export {where} --out exports/{plan.group.name}"
    for job, _ in failed[:3]:
        yield f"         {job.label}: {shlex.quote(str(job.folder))}"


def _arms(plan: SweepPlan) -> str:
    arms, seeds = len(plan.arms), len(plan.seeds)
    of = f" ({', '.join(plan.varying)})" if plan.varying else ""
    return f"{_count(len(plan.jobs), 'job')}: {_count(arms, 'arm')}{of} x {_count(seeds, 'seed')}"


def _how_they_stand(statuses: Sequence[RunStatus], missing: Sequence[bool]) -> str:
    counts = Counter(_stands(status.state, is_missing) for status, is_missing in zip(statuses, missing, strict=True))
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _stands(state: str, is_missing: bool) -> str:
    if is_missing:
        return "to be continued" if state in TO_CONTINUE else "to be retried" if state in FAILED else "to run"
    return "running elsewhere" if state == "running" else f"{state}, not retried" if state in FAILED else state


def _cost(estimate: Estimate | None, missing: int, workers: int) -> str:
    if estimate is None:
        return "not known: no finished run is like these"
    at_once = f" with {workers} at once" if workers > 1 else ""
    return (
        f"about {duration_shown(estimate.seconds / max(1, workers))} for {_count(missing, 'job')}{at_once}, "
        f"{bytes_shown(round(estimate.bytes))} on disk (by {_count(estimate.runs, 'finished run')})"
    )


def _tally(statuses: Sequence[RunStatus]) -> str:
    counts = Counter(status.state.replace("_", " ") for status in statuses)
    return f"{_count(len(statuses), 'job')}: " + ", ".join(f"{count} {state}" for state, count in counts.items())


def _few(labels: Sequence[str]) -> str:
    return "; ".join(labels[:3]) + (" ..." if len(labels) > 3 else "")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
