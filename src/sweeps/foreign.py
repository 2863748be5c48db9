"""Jobs through a launcher that is not ours (joblib, ...): it gets overrides, the folders tell how jobs ended."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from hydra.core.utils import JobReturn, JobStatus

from src.errors import in_one_line
from src.sweeps.job import Outcome
from src.sweeps.plan import Job
from src.sweeps.progress import Desk
from src.sweeps.run import RunJobs

if TYPE_CHECKING:
    from hydra.plugins.launcher import Launcher


def run_jobs_with(launcher: Launcher) -> RunJobs:
    """What runs jobs through any Hydra launcher.

    A launcher that breaks (a killed worker takes joblib's whole pool with it) is said so; the jobs that it left
    without an ending are still missing, and the sweep launches them again.
    """

    def run_jobs(jobs: Sequence[Job], desk: Desk) -> None:
        for job in jobs:
            desk.begins(job)
        answers: Sequence[JobReturn] = ()
        try:
            answers = launcher.launch([[*job.fixed, *job.overrides] for job in jobs], initial_job_idx=0)
        except Exception as error:
            desk.say(f"the launcher broke: {in_one_line(type(error).__name__, str(error))}")
        for job, answer in zip_longest(jobs, answers[: len(jobs)]):
            standing = job.standing()
            if standing.state in ("new", "killed", "running"):
                if answer is not None and answer.status == JobStatus.FAILED:
                    said = answer._return_value  # its property raises it
                    desk.ends(job, Outcome("failed", in_one_line(type(said).__name__, str(said))))
                continue
            error = standing.record.error if standing.record is not None else None
            desk.ends(job, Outcome(standing.state, in_one_line(error["type"], error["message"]) if error else None))

    return run_jobs
