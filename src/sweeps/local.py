"""The jobs of a sweep one after another in this process: imports, corpus and W&B's helper are paid for once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from src.sweeps.job import run_job
from src.sweeps.plan import Job
from src.sweeps.progress import Desk, open_job_sinks


def run_jobs(jobs: Sequence[Job], desk: Desk) -> None:
    """Runs the jobs in order, until all are over or the sweep is to stop."""
    open_sinks = partial(open_job_sinks, console=desk.console)
    for job in jobs:
        if desk.is_stopping:
            return
        desk.begins(job)
        desk.ends(job, run_job(job.config, desk.launch_dir, desk.stop, desk.load, open_sinks))
