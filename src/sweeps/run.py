"""A sweep from its plan to its exit code: launches what is missing until nothing is."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from src.errors import ConfigError
from src.record import Record, now
from src.sweeps.manifest import note_states, skipped_id, write_plan
from src.sweeps.plan import Invalid, Job, SweepPlan, estimate
from src.sweeps.progress import Desk
from src.sweeps.states import FAILED
from src.sweeps.table import Row, print_ending, print_plan, print_rates, row
from src.training.environment import code_identity, environment
from src.training.plan import LoadData
from src.training.stop import StopFlag

POLL_S = 1.0
RunJobs = Callable[[Sequence[Job], Desk], None]
"""Runs jobs and reports each to the desk; returns when none is running any more."""


@dataclass(frozen=True)
class Asked:
    """By which command a sweep was asked for, which file of sweeps/ it chose, and that file's question."""

    command: Sequence[str]
    sweep: str | None = None
    question: str | None = None


def conduct(
    plan: SweepPlan, run_jobs: RunJobs, asked: Asked, console: Console, workers: int = 1, load: LoadData | None = None
) -> int:
    """Shows the plan, runs what is missing, shows how each job stands.

    Returns the exit code: 0 all finished, 1 some failed, 2 a point cannot be, 130 interrupted, 143 preempted.
    A run that another process holds is waited for, and taken over if that process does not finish it.
    """
    settings = plan.config.sweep
    rows = [row(job) for job in plan.jobs]
    missing = [each.job for each in rows if each.job.is_missing]
    title = f"sweep {asked.sweep}: {asked.question}" if asked.sweep else "sweep"
    print_plan(console, plan, title, estimate(missing, plan.group.parent), min(workers, len(missing)), rows)
    if plan.invalid and settings.invalid == "error":
        raise ConfigError(_refusal(plan.invalid))
    if settings.dry_run:
        return 0
    write_plan(plan, asked.command, asked.sweep, asked.question)
    for point in plan.invalid:
        _record_skipped(plan.group, point)
    with StopFlag() as stop:
        desk = Desk(plan, console, stop, load)
        try:
            run_missing(plan.jobs, run_jobs, desk)
        except KeyboardInterrupt:  # a second Ctrl-C does not wait for jobs to save
            stop.signal_number = signal.SIGINT
        rows = _final(plan.jobs, desk)
        note_states(plan, {each.job.run_id: each.state for each in rows})
        print_ending(console, plan, rows)
        if settings.choose_learning_rate:
            print_rates(console, plan.group)
        return exit_code(rows, stop.signal_number)


def exit_code(rows: Sequence[Row], signal_number: int | None) -> int:
    """What the command ends with. A stop that came when all was finished is none."""
    states = {row.state for row in rows}
    if states <= {"finished"}:
        return 0
    if signal_number is not None:
        return 130 if signal_number == signal.SIGINT else 143
    if states & {*FAILED, "killed", "not_run"}:
        return 1
    return 143 if "preempted" in states else 130 if "interrupted" in states else 1


def run_missing(jobs: Sequence[Job], run_jobs: RunJobs, desk: Desk) -> None:
    """Runs the jobs that are not finished, and waits for those that other processes run."""
    said = False
    while not desk.is_stopping:
        open_jobs = [job for job in jobs if not desk.has_ended(job)]
        missing = [job for job in open_jobs if job.is_missing and _may_launch(job, desk)]
        if missing:
            run_jobs(missing, desk)
            continue
        held = [job for job in open_jobs if job.standing().state == "running"]
        if not held:
            return
        if not said:
            desk.say(f"waiting for {len(held)} of the jobs, which other processes run: {held[0].label}, ...")
            said = True
        time.sleep(POLL_S)


def _may_launch(job: Job, desk: Desk) -> bool:
    return desk.launches.get(job.run_id, 0) < job.config.sweep.max_attempts


def _final(jobs: Sequence[Job], desk: Desk) -> list[Row]:
    rows = []
    for job in jobs:
        outcome = desk.outcomes.get(job.run_id)
        found = row(job, outcome.error if outcome else None)
        if found.state == "new":  # it never ran, or failed before its folder could say so
            state = outcome.state if outcome is not None and outcome.state != "running" else "not_run"
            found = Row(job, state, found.note)
        rows.append(found)
    return rows


def _refusal(invalid: Sequence[Invalid]) -> str:
    first = f"{invalid[0].label}: {invalid[0].reason}" if len(invalid) == 1 else f"{len(invalid)} points, listed above"
    return f"this sweep asks for what cannot be ({first}); leave it out, or give sweep.invalid=skip"


def _record_skipped(group: Path, point: Invalid) -> None:
    """A record of a point that cannot be, so that it is counted and not merely absent."""
    folder = group / skipped_id(point.overrides)
    folder.mkdir(parents=True, exist_ok=True)
    record = Record(
        run_id=folder.name,
        status="skipped",
        config=point.config.model_dump() if point.config is not None else dict(point.values),
        config_hash=folder.name.rpartition("-")[2],
        code=code_identity(),
        data={},
        environment=environment(),
        geometry={},
        costs={},
        started_at=now(),
    )
    record.ended("skipped", {}, ConfigError(point.reason)).write(folder)
