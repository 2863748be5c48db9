"""A job sent elsewhere as plain values."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest

from src.record import Record
from src.sweeps.job import Task
from src.sweeps.progress import open_job_sinks
from src.training.environment import JOB_ID_VARIABLE, LAUNCHER_VARIABLE, SUBMITTED_CODE_VARIABLE
from tests.sweeps.conftest import PlanIt


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a task sets in its process is taken back."""
    for name in (LAUNCHER_VARIABLE, JOB_ID_VARIABLE, SUBMITTED_CODE_VARIABLE):
        monkeypatch.setenv(name, "to be replaced")
        monkeypatch.delenv(name)


def test_a_job_sent_elsewhere_is_the_planned_run_and_says_who_ran_it(plan_it: PlanIt) -> None:
    job = plan_it().jobs[0]
    task = pickle.loads(pickle.dumps(Task.of(job.config, job.folder.parents[2])))
    assert json.loads(json.dumps(dict(task.config))) == task.config
    assert task.run(open_job_sinks, "ray", "job-7").state == "finished"
    record = Record.read(job.folder)
    assert record.run_id == job.run_id
    assert (record.environment["launcher"], record.environment["job_id"]) == ("ray", "job-7")
    assert record.environment["submitted_code"] is None


def test_a_job_that_starts_with_other_code_than_it_was_submitted_with_says_so_loudly(plan_it: PlanIt) -> None:
    job = plan_it().jobs[0]
    submitted = {"version": "0.0.1", "source_hash": "other"}
    assert replace(Task.of(job.config, job.folder.parents[2]), code=submitted).run(open_job_sinks).state == "finished"
    record = Record.read(job.folder)
    assert record.environment["submitted_code"] == submitted
    assert record.code != submitted
    assert "submitted with other code" in (job.folder / "log.txt").read_text()
