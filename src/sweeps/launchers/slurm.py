"""The jobs of a sweep on a Slurm cluster, as one job array. submitit writes and submits it; the folders tell the end.

A job that is told to make room (SIGTERM, SIGUSR1, SIGUSR2) saves and is queued again; it goes on where it was.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from src import ROOT
from src.errors import ConfigError
from src.sweeps.job import Outcome, Task, WorkerKilled, record_ending
from src.sweeps.plan import Job
from src.sweeps.progress import Progress, open_job_sinks

POLL_S = 2.0
MOST_IN_ARRAY = 1000
"""Slurm's own limit of one array, unless its administrators raised it (MaxArraySize)."""

_OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE")


class SlurmJobError(RuntimeError):
    """The job did not finish; raised on the node, so that Slurm too shows it as failed."""


def run_here(task: Task) -> str:
    """Runs on the node. Raises SlurmJobError for a job that did not finish."""
    outcome = task.run(open_job_sinks)
    if outcome.state == "preempted" and _state_of_this_job() == "RUNNING":  # neither cancelled nor requeued already
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # by which Slurm now ends this process, before it
        _slurm("scontrol", "requeue", _own_id())
        time.sleep(60)  # could end by itself, which would count as the job's ending
    if outcome.state not in ("finished", "running"):
        raise SlurmJobError(f"the job ended as {outcome.state}: {outcome.error}")
    return outcome.state


@dataclass
class Slurm:
    """How jobs are submitted: `parameters` as submitit names them."""

    parameters: Mapping[str, Any]
    poll_s: float = POLL_S
    _submitted: dict[str, Job] = field(default_factory=dict)

    @property
    def workers(self) -> int:
        return self.parameters["array_parallelism"]

    def run_jobs(self, jobs: Sequence[Job], progress: Progress) -> None:
        """Submits the jobs and waits until each is over; when the sweep is to stop, cancels what is left."""
        for first in range(0, len(jobs), MOST_IN_ARRAY):
            self._submit(jobs[first : first + MOST_IN_ARRAY], progress)
        is_cancelled = False
        try:
            while self._submitted:
                if progress.is_stopping and not is_cancelled:
                    is_cancelled = True
                    self._cancel(only_waiting=progress.stop.signal_number is None)
                states = states_of(list(self._submitted))
                for slurm_id, job in list(self._submitted.items()):
                    if states.get(slurm_id, "COMPLETED").startswith(_OVER):
                        del self._submitted[slurm_id]
                        _report(job, slurm_id, states.get(slurm_id, "gone"), progress)
                time.sleep(self.poll_s)
        except KeyboardInterrupt:
            self._cancel(only_waiting=False)
            raise

    def _submit(self, jobs: Sequence[Job], progress: Progress) -> None:
        import submitit

        folder = jobs[0].folder.parent / ".slurm"
        try:
            executor = submitit.SlurmExecutor(folder=folder)
            executor.update_parameters(**self._parameters())
        except (RuntimeError, ValueError) as error:
            raise ConfigError(f"hydra/launcher=slurm: {error}") from None
        submitted = executor.map_array(run_here, [Task.of(job.config, progress.launch_dir) for job in jobs])
        for slurm_job, job in zip(submitted, jobs, strict=True):
            self._submitted[slurm_job.job_id] = job
            progress.begins(job)
        array = submitted[0].job_id.partition("_")[0]
        progress.say(f"Slurm job {array}: {len(jobs)} submitted; its files are in {folder}")

    def _parameters(self) -> dict[str, Any]:
        setup = [
            f"export PYTHONPATH={ROOT}${{PYTHONPATH:+:$PYTHONPATH}}",
            "export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}",
        ]
        given = {name: value for name, value in self.parameters.items() if value is not None}
        return {"job_name": "headcount"} | given | {"setup": setup + list(given.get("setup", []))}

    def _cancel(self, only_waiting: bool) -> None:
        ids = sorted({slurm_id.partition("_")[0] for slurm_id in self._submitted})
        if ids:
            _slurm("scancel", *(["--state=PENDING"] if only_waiting else []), *ids)


def states_of(slurm_ids: Sequence[str]) -> dict[str, str]:
    """What Slurm's queue says of these jobs; those that it has forgotten are left out. No accounting is needed."""
    arrays = ",".join(sorted({slurm_id.partition("_")[0] for slurm_id in slurm_ids}))
    listed = _slurm("squeue", "--noheader", "--array", "--states=all", "--format=%i|%T", f"--jobs={arrays}")
    pairs = (line.strip().partition("|") for line in listed.splitlines() if "|" in line)
    found = {slurm_id: state for slurm_id, _, state in pairs}
    # A single job is listed without its task's number.
    return {name: state for name in slurm_ids if (state := found.get(name) or found.get(name.removesuffix("_0")))}


def _report(job: Job, slurm_id: str, slurm_state: str, progress: Progress) -> None:
    status = job.status()
    if status.state in ("not_run", "running", "killed") and progress.stop.signal_number is None:
        error = WorkerKilled(f"Slurm job {slurm_id} ended as {slurm_state} without a word of the run")
        record_ending(job.folder, job.config, job.geometry, "failed", error)
        status = job.status()
    if status.state != "not_run":
        progress.ends(job, Outcome.of(status))


def _own_id() -> str:
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array else os.environ.get("SLURM_JOB_ID", "")


def _state_of_this_job() -> str | None:
    return states_of([_own_id()]).get(_own_id())


def _slurm(*command: str) -> str:
    """What a Slurm command prints; nothing where it fails, as for a job that is long over."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
