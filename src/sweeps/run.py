"""A sweep from its command to its exit code: planned, shown, and what is missing launched until nothing is."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from src import ROOT
from src.errors import EXIT_CODES, ConfigError
from src.run_status import FAILED, RunStatus
from src.sweep_file import add_plan, note_states
from src.sweeps.display import print_ending, print_plan, print_rates
from src.sweeps.estimate import estimate
from src.sweeps.grid import Compose, Request, points, read_request
from src.sweeps.others import run_jobs_with
from src.sweeps.plan import Invalid, Job, SweepPlan, keep_data, plan_sweep
from src.sweeps.progress import Progress, RunJobs, run_missing
from src.training.environment import code_identity
from src.training.folder import new_record
from src.training.plan import LoadData
from src.training.stop import StopFlag

if TYPE_CHECKING:
    from hydra.plugins.launcher import Launcher

SWEEPS_DIR = ROOT / "sweeps"


@dataclass(frozen=True)
class SweepCommand:
    """By which command a sweep was asked for, which file of sweeps/ it chose, and that file's question."""

    arguments: Sequence[str]
    sweep: str | None = None
    question: str | None = None


def sweep(
    arguments: Sequence[str],
    params: Mapping[str, Any],
    compose: Compose,
    launcher: Launcher,
    launch_dir: Path,
    command: Sequence[str],
) -> int:
    """`python -m src.train -m ...` with our sweeper. Returns its exit code.

    Raises UserError for what cannot be run as asked.
    """
    request = read_request(arguments, params)
    load = keep_data()
    plan = plan_sweep(request, points(request, compose), launch_dir, load)
    name = sweep_name(request)
    asked = SweepCommand(command, name, question_of(SWEEPS_DIR / f"{name}.yaml") if name else None)
    run_jobs: RunJobs = getattr(launcher, "run_jobs", None) or run_jobs_with(launcher)
    workers = getattr(launcher, "workers", None) or 1
    return run_sweep(plan, run_jobs, asked, Console(highlight=False), workers, load)


def sweep_name(request: Request) -> str | None:
    """The file of sweeps/ that the command chose, if it chose one."""
    chosen = [line.partition("=")[2] for line in request.fixed if line.lstrip("+").startswith("sweeps=")]
    return chosen[0] if chosen and chosen[0] != "null" else None


def question_of(path: Path) -> str | None:
    """The question that a sweep file's header asks: its line `# Question: ...`."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# Question:"):
            return line.removeprefix("# Question:").strip()
    return None


def run_sweep(
    plan: SweepPlan,
    run_jobs: RunJobs,
    asked: SweepCommand,
    console: Console,
    workers: int = 1,
    load: LoadData | None = None,
) -> int:
    """Shows the plan, runs what is missing, shows how each job stands.

    Returns the exit code: 0 all finished, 1 some failed, 2 a point cannot be, 130 interrupted, 143 preempted.
    A run that another process holds is waited for, and taken over if that process does not finish it.
    """
    settings = plan.config.sweep
    statuses = [job.status() for job in plan.jobs]
    missing = [job for job, status in zip(plan.jobs, statuses, strict=True) if job.has_to_run(status)]
    title = f"sweep {asked.sweep}: {asked.question}" if asked.sweep else "sweep"
    cost = estimate(missing, plan.group.parent)
    print_plan(console, plan, title, cost, min(workers, len(missing)), statuses)
    if plan.invalid and settings.invalid == "error":
        raise ConfigError(_refusal(plan.invalid))
    if settings.pilot is not None:
        from analysis.planner import power_from_pilot  # statistics that no other sweep needs

        said = power_from_pilot(Path(settings.pilot), len(plan.seeds), len(plan.arms), settings.margin_nats)
        console.print(f"power    {said}", highlight=False, soft_wrap=True)
    if settings.dry_run:
        return 0
    _write_plan(plan, asked)
    with StopFlag() as stop:
        progress = Progress(plan, console, stop, load)
        try:
            run_missing(plan.jobs, run_jobs, progress)
        except KeyboardInterrupt:  # a second Ctrl-C does not wait for jobs to save
            stop.signal_number = signal.SIGINT
        statuses = [_final(job, progress) for job in plan.jobs]
        note_states(plan.group, {status.run_id: status.state for status in statuses})
        print_ending(console, plan, statuses)
        if settings.choose_learning_rate:
            print_rates(console, plan.group)
        return exit_code(statuses, stop.signal_number)


def exit_code(statuses: Sequence[RunStatus], signal_number: int | None) -> int:
    """What the command ends with. A stop that came when all was finished is none."""
    states = {status.state for status in statuses}
    if states <= {"finished"}:
        return 0
    if signal_number is not None:
        return EXIT_CODES["interrupted" if signal_number == signal.SIGINT else "preempted"]
    if not states & {*FAILED, "killed", "not_run"}:
        for stopped in ("preempted", "interrupted"):
            if stopped in states:
                return EXIT_CODES[stopped]
    return 1


def _final(job: Job, progress: Progress) -> RunStatus:
    """How the job stands now that the command ends; of what its folder does not tell, what the launcher said."""
    status, outcome = job.status(), progress.outcomes.get(job.run_id)
    if outcome is None:
        return status
    is_silent = status.state == "not_run" and outcome.state != "running"  # it failed before it had a folder
    return replace(
        status, state=outcome.state if is_silent else status.state, problem=status.problem or outcome.error
    )  # fmt: skip


def _write_plan(plan: SweepPlan, asked: SweepCommand) -> None:
    add_plan(
        plan.group,
        plan.planned_points,
        command=list(asked.arguments),
        launch_dir=str(plan.launch_dir),
        code=code_identity(),
        sweep=asked.sweep,
        question=asked.question,
        factors=plan.varying,
        arms=plan.arms,
        seeds=plan.seeds,
        margin_nats=plan.config.sweep.margin_nats,
        control=plan.config.sweep.control,
        varying=plan.config.sweep.varying,
    )
    for point in plan.invalid:
        _record_skipped(plan.group, point)


def _refusal(invalid: Sequence[Invalid]) -> str:
    first = f"{invalid[0].label}: {invalid[0].reason}" if len(invalid) == 1 else f"{len(invalid)} points, listed above"
    return f"this sweep asks for what cannot be ({first}); leave it out, or give sweep.invalid=skip"


def _record_skipped(group: Path, point: Invalid) -> None:
    """A record of a point that cannot be, so that it is counted and not merely absent."""
    folder = group / point.run_id
    folder.mkdir(parents=True, exist_ok=True)
    config = point.config.model_dump() if point.config is not None else point.values
    record = new_record(folder.name, folder.name.rpartition("-")[2], config)
    record.ended("skipped", {}, ConfigError(point.reason)).write(folder)
