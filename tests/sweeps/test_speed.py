"""What a sweep costs beside training: planning, each further job, and what several processes gain. By hand."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from src.compose import composed
from src.sweeps.grid import points, read_request
from src.sweeps.launchers import Local
from src.sweeps.launchers.processes import Processes, shares
from src.sweeps.plan import keep_data, plan_sweep
from tests.sweeps.conftest import SweepIt, records

pytestmark = pytest.mark.slow


def test_a_plan_of_a_thousand_jobs_is_checked_in_under_thirty_seconds(tmp_path: Path) -> None:
    since = time.perf_counter()
    request = read_request(["heads=1,2,4,8,16", "training.learning_rate=0.001,0.002", "seed=range(100)"])
    plan = plan_sweep(request, points(request, composed), tmp_path, keep_data())
    seconds = time.perf_counter() - since
    print(f"1,000 jobs planned in {seconds:.1f} s")
    assert len(plan.jobs) == 1000
    assert seconds < 30


def test_a_further_job_in_this_process_costs_under_a_second_and_a_half(sweep_it: SweepIt) -> None:
    quick = ("training.max_steps=1", "training.warmup_steps=0", "sample.tokens=0", "measurement.decode_tokens=1")
    sweep_it("heads=1", *quick, "logger=wandb", "logger.mode=offline", "group=first")
    since = time.perf_counter()
    swept = sweep_it("heads=1,2,4,8", *quick, "logger=wandb", "logger.mode=offline")
    seconds = (time.perf_counter() - since) / 4
    print(f"{seconds:.2f} s a job of one step, W&B offline")
    assert swept.code == 0
    assert {record.environment["logger"]["state"] for record in records(swept.plan.group).values()} == {"offline"}
    assert seconds < 1.5


def test_two_processes_take_at_most_two_thirds_of_the_time_of_one(sweep_it: SweepIt) -> None:
    words = ("heads=1,2,4,8", "seed=0,1", "training.max_steps=900", "model.d_model=64", "training.batch_size=16")
    seconds = {}
    for name, run_jobs in (("local", Local().run_jobs), ("two", Processes(shares(2, [], 2)).run_jobs)):
        since = time.perf_counter()
        assert sweep_it(*words, "training.eval_interval=300", f"group={name}", run_jobs=run_jobs).code == 0
        seconds[name] = time.perf_counter() - since
    print(f"8 jobs: {seconds['local']:.0f} s one after another, {seconds['two']:.0f} s in two processes")
    assert seconds["two"] <= 0.65 * seconds["local"]
