"""Hydra's other launchers, such as joblib, run our jobs; its other sweepers, such as Optuna, propose them."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.core.utils import JobReturn, JobStatus
from rich.console import Console

from src.errors import one_line
from src.sweeps.grid import Compose, points, read_request
from src.sweeps.job import Outcome
from src.sweeps.plan import Job, SweepPlan, keep_data, plan_sweep
from src.sweeps.progress import Progress, RunJobs, run_missing
from src.training.plan import LoadData
from src.training.stop import StopFlag

if TYPE_CHECKING:
    from hydra.plugins.launcher import Launcher


def run_jobs_with(launcher: Launcher) -> RunJobs:
    """What runs jobs through any Hydra launcher: it is given overrides, and the folders tell how the jobs ended.

    A launcher that breaks (a killed worker takes joblib's whole pool with it) is said so; the jobs that it left
    without an ending are still missing, and the sweep launches them again.
    """

    def run_jobs(jobs: Sequence[Job], progress: Progress) -> None:
        for job in jobs:
            progress.begins(job)
        answers: Sequence[JobReturn] = ()
        try:
            answers = launcher.launch([[*job.fixed, *job.overrides] for job in jobs], initial_job_idx=0)
        except Exception as error:
            progress.say(f"the launcher broke: {one_line(type(error).__name__, str(error))}")
        for job, answer in zip_longest(jobs, answers[: len(jobs)]):
            status = job.status()
            if status.state not in ("not_run", "killed", "running"):
                progress.ends(job, Outcome.of(status))
            elif answer is not None and answer.status == JobStatus.FAILED:
                said = answer._return_value  # its property raises it
                progress.ends(job, Outcome("failed", one_line(type(said).__name__, str(said))))

    return run_jobs


def run_proposed(
    run_jobs: RunJobs, compose: Compose, proposals: Sequence[Sequence[str]], first: int
) -> list[JobReturn]:
    """Runs each proposal of another sweeper, or finds it finished, and answers by its validation loss.

    One that has no loss answers infinity, which no sweeper chooses. `first`: how many were proposed before. An equal
    proposal is the same run, and is not run twice.

    Raises KeyboardInterrupt when it was asked to stop, so that the sweeper proposes nothing more.
    """
    load = keep_data()
    plans = [_plan(proposal, compose, load) for proposal in proposals]
    jobs = {plan.jobs[0].run_id: plan.jobs[0] for plan in plans}
    numbered = [replace(job, number=first + k) for k, job in enumerate(jobs.values(), start=1)]
    whole = SweepPlan(plans[0].group, plans[0].launch_dir, numbered)
    with StopFlag() as stop:
        progress = Progress(whole, Console(highlight=False), stop, load)
        run_missing(whole.jobs, run_jobs, progress)
        if stop.signal_number is not None:
            raise KeyboardInterrupt
    return [_answer(proposal, plan.jobs[0]) for proposal, plan in zip(proposals, plans, strict=True)]


def _plan(proposal: Sequence[str], compose: Compose, load: LoadData) -> SweepPlan:
    request = read_request(proposal)
    return plan_sweep(request, points(request, compose), Path(os.getcwd()), load)


def _answer(proposal: Sequence[str], job: Job) -> JobReturn:
    status = job.status()
    answer = JobReturn(overrides=list(proposal), status=JobStatus.COMPLETED)
    answer.return_value = math.inf if status.state != "finished" or status.loss is None else status.loss
    return answer
