"""Job arrays on a real Slurm of one node: `SLURM_CONF=$(.ci/slurm) pytest tests/sweeps/test_slurm.py`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

import pytest

from src.record import Record
from src.sweeps.launchers.slurm import Slurm, states_of
from tests.sweeps.conftest import PlanIt, SweepIt, records
from tests.sweeps.test_processes import SELDOM, has_rows, when
from tests.training.conftest import logged

pytestmark = [
    pytest.mark.skipif("SLURM_CONF" not in os.environ or shutil.which("sbatch") is None, reason="no Slurm is started"),
]
ONE_AT_A_TIME = {"time": 10, "cpus_per_task": 1, "array_parallelism": 1}


def test_an_array_runs_every_job_and_slurm_too_shows_a_failed_one_as_failed(sweep_it: SweepIt) -> None:
    cluster = Slurm({"time": 10, "cpus_per_task": 1}, poll_s=0.5)
    swept = sweep_it("(heads,device)=(1,cpu),(2,cuda:99),(4,cpu)", run_jobs=cluster.run_jobs)
    assert swept.code == 1
    assert [job.status().state for job in swept.plan.jobs] == ["finished", "failed", "finished"]
    found = records(swept.plan.group)
    places = [found[job.run_id].environment for job in swept.plan.jobs]
    assert {place["launcher"] for place in places} == {"slurm"}
    ids = [place["job_id"] for place in places]
    assert [name.rpartition("_")[2] for name in ids] == ["0", "1", "2"]
    assert {place["threads"] for place in (places[0], places[2])} == {1}
    assert [states_of([name])[name] for name in ids] == ["COMPLETED", "FAILED", "COMPLETED"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_preempted_job_saves_is_queued_again_and_goes_on(
    sweep_it: SweepIt, plan_it: PlanIt, number: signal.Signals
) -> None:
    words = ("(heads,training.max_steps)=(1,4000),(2,12)", *SELDOM)
    job = plan_it(*words).jobs[0]

    def preempt() -> None:
        name = Record.read(job.folder).environment["job_id"]
        subprocess.run(["scancel", f"--signal={number.name}", name], check=True)
        # Slurm lets a requeued job wait for two minutes; a test need not.
        when(lambda: states_of([name]).get(name) == "PENDING", lambda: start_now(name)).join()

    told = when(lambda: has_rows(job.folder, 20), preempt)
    swept = sweep_it(*words, run_jobs=Slurm(ONE_AT_A_TIME, poll_s=0.5).run_jobs)
    told.join()
    assert swept.code == 0, swept.text
    first, second = Record.read(job.folder).segments
    assert (first["status"], second["status"]) == ("preempted", "finished")
    assert second["from_step"] > 0
    assert sorted(logged(job.folder))[-1] == 4000


def start_now(name: str) -> None:
    subprocess.run(["scontrol", "update", f"JobId={name}", "StartTime=now"], check=True)


def test_stopping_the_sweep_saves_what_runs_and_takes_the_rest_out_of_the_queue(
    sweep_it: SweepIt, plan_it: PlanIt
) -> None:
    words = ("(heads,training.max_steps)=(1,100000),(2,12),(4,12)", *SELDOM)
    job = plan_it(*words).jobs[0]
    told = when(lambda: has_rows(job.folder, 5), lambda: os.kill(os.getpid(), signal.SIGINT))
    swept = sweep_it(*words, run_jobs=Slurm(ONE_AT_A_TIME, poll_s=0.5).run_jobs)
    told.join()
    assert swept.code == 130
    assert [job.status().state for job in swept.plan.jobs] == ["preempted", "not_run", "not_run"]
    array = Record.read(job.folder).environment["job_id"].partition("_")[0]
    left = states_of([f"{array}_{task}" for task in range(3)])
    assert not set(left.values()) & {"PENDING", "RUNNING", "COMPLETING"}, left
