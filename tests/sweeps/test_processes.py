"""Several jobs at once in processes of this machine."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from src.record import RECORD, Record
from src.sweeps.launchers.processes import Processes, Share, shares, visible_gpus
from tests.sweeps.conftest import PlanIt, SweepIt, records
from tests.training.conftest import logged

SELDOM = ("training.eval_interval=100000", "training.checkpoint_interval=20")
LONG = ("(heads,training.max_steps)=(1,12),(2,600),(4,12)", *SELDOM)


def when(is_so: Callable[[], bool], act: Callable[[], None]) -> threading.Thread:
    """Acts once something is so; gives up after two minutes."""

    def wait() -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if is_so():
                act()
                return
            time.sleep(0.02)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def has_rows(folder: Path, count: int) -> bool:
    path = folder / "metrics.jsonl"
    return path.exists() and path.read_bytes().count(b"\n") > count


def test_each_job_has_its_share_of_threads_and_a_gpu_to_itself(sweep_it: SweepIt) -> None:
    two = [Share(0, 2, "0"), Share(1, 2, "1")]
    swept = sweep_it(
        "heads=1,2", "seed=0,1", "training.threads=auto", run_jobs=Processes(two).run_jobs
    )  # fmt: skip
    assert swept.code == 0, swept.text
    found = records(swept.plan.group).values()
    assert {(r.environment["job_id"], r.environment["visible_gpus"]) for r in found} == {("0", "0"), ("1", "1")}
    assert {r.environment["launcher"] for r in found} == {"processes"}
    assert {r.environment["threads"] for r in found} == {2}  # the tests themselves run with 1
    spans = sorted((r.environment["visible_gpus"], r.started_at, r.ended_at or "") for r in found)
    for (gpu, _, ended), (next_gpu, started, _) in pairwise(spans):
        assert gpu != next_gpu or ended <= started, "two jobs at once on one GPU"


def test_a_killed_worker_loses_its_own_job_alone_and_the_rerun_completes_it(sweep_it: SweepIt, plan_it: PlanIt) -> None:
    job = plan_it(*LONG).jobs[1]
    killer = when(
        lambda: has_rows(job.folder, 20),
        lambda: os.kill(Record.read(job.folder).environment["pid"], signal.SIGKILL),
    )
    swept = sweep_it(*LONG, run_jobs=Processes(shares(2, [], 2)).run_jobs)
    killer.join()
    assert swept.code == 1
    assert [job.status().state for job in swept.plan.jobs] == ["finished", "failed", "finished"]
    record = Record.read(job.folder)
    assert record.error is not None
    assert "was killed by SIGKILL" in record.error["message"]
    assert record.segments[0]["status"] == "failed"
    again = sweep_it(*LONG)
    assert again.code == 0
    assert Record.read(job.folder).segments[1]["from_step"] > 0
    assert sorted(logged(job.folder))[-1] == 600


def test_a_stopped_sweep_stops_its_workers_which_save_what_they_have(sweep_it: SweepIt, plan_it: PlanIt) -> None:
    words = ("(heads,training.max_steps)=(1,100000),(2,100000),(4,12)", *SELDOM)
    folders = [job.folder for job in plan_it(*words).jobs[:2]]
    stopper = when(lambda: all(has_rows(folder, 5) for folder in folders), lambda: os.kill(os.getpid(), signal.SIGTERM))
    swept = sweep_it(*words, run_jobs=Processes(shares(2, [], 2)).run_jobs)
    stopper.join()
    assert swept.code == 143
    assert [job.status().state for job in swept.plan.jobs] == ["preempted", "preempted", "not_run"]
    assert all((folder / "checkpoint.pt").exists() for folder in folders)
    assert "1 not run" in swept.text


def test_a_worker_whose_sweep_is_killed_saves_and_ends(tmp_path: Path, plan_it: PlanIt) -> None:
    import json
    import subprocess
    import sys

    job = plan_it("training.max_steps=100000").jobs[0]
    worker = subprocess.Popen(
        [sys.executable, "-m", "src.sweeps.launchers.processes"], stdin=subprocess.PIPE, text=True
    )
    assert worker.stdin is not None
    worker.stdin.write(
        json.dumps({"config": job.config.model_dump(), "origins": {}, "launch_dir": str(tmp_path)}) + "\n"
    )
    worker.stdin.flush()
    when(lambda: has_rows(job.folder, 5), worker.stdin.close).join()
    assert worker.wait(60) == 0
    assert Record.read(job.folder).status == "preempted"
    assert (job.folder / RECORD).exists()


def test_more_jobs_than_gpus_wait_for_one() -> None:
    assert [share.gpu for share in shares(8, ["3", "5"], cores=4)] == ["3", "5"]
    assert [share.threads for share in shares(None, [], cores=2)] == [1, 1]
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "3, 5"}) == ["3", "5"]
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}) == visible_gpus({"CUDA_VISIBLE_DEVICES": "-1"}) == []
