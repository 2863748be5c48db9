"""Jobs that another of Hydra's sweepers proposes, such as Optuna's: run like ours, answered by the validation loss."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.utils import JobReturn, JobStatus
from rich.console import Console

from src.sweeps.grid import Compose, points, read_request
from src.sweeps.plan import SweepPlan, keep_data, plan_sweep
from src.sweeps.progress import Desk
from src.sweeps.run import run_missing
from src.training.stop import StopFlag

if TYPE_CHECKING:
    from hydra_plugins.headcount.launchers import JobLauncher


def launch_proposed(
    launcher: JobLauncher, compose: Compose, proposals: Sequence[Sequence[str]], first: int
) -> list[JobReturn]:
    """Runs each proposal, or finds it finished; one that has no loss answers infinity, which no sweeper chooses.

    `first`: how many were proposed before. An equal proposal is the same run, and is not run twice.

    Raises KeyboardInterrupt when it was asked to stop, so that the sweeper proposes nothing more.
    """
    load = keep_data()
    plans = [_plan(proposal, compose, load) for proposal in proposals]
    jobs = {plan.jobs[0].run_id: plan.jobs[0] for plan in plans}
    numbered = [replace(job, number=first + k) for k, job in enumerate(jobs.values(), start=1)]
    whole = SweepPlan(plans[0].group, plans[0].launch_dir, numbered)
    with StopFlag() as stop:
        desk = Desk(whole, Console(highlight=False), stop, load)
        run_missing(whole.jobs, launcher.run_jobs, desk)
        if stop.signal_number is not None:
            raise KeyboardInterrupt
    return [_answer(proposal, plan) for proposal, plan in zip(proposals, plans, strict=True)]


def _plan(proposal: Sequence[str], compose: Compose, load: Any) -> SweepPlan:
    request = read_request(proposal)
    return plan_sweep(request, points(request, compose), Path(os.getcwd()), load)


def _answer(proposal: Sequence[str], plan: SweepPlan) -> JobReturn:
    record = plan.jobs[0].standing().record
    loss = record.summary.get("val/loss") if record is not None and record.status == "finished" else None
    answer = JobReturn(overrides=list(proposal), status=JobStatus.COMPLETED)
    answer.return_value = math.inf if loss is None else loss
    return answer
