"""What goes wrong on real machines. After each: nothing finished is lost, every record parses, the rerun completes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from src.errors import RunError
from src.sweep_file import read_plans
from src.sweeps.launchers.processes import Processes, shares
from tests.sweeps.conftest import PlanIt, SweepIt, records
from tests.training.conftest import logged

STEPS = 600
WORDS = ("heads=1,2", "seed=0,1", f"training.max_steps={STEPS}", "training.eval_interval=200")
TWO = Processes(shares(2, [], 2)).run_jobs


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A file system of its own in this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=False).returncode:
        pytest.skip("mounting needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder, as a disk that can no longer be written."""
    if subprocess.run(["mount", "--bind", str(folder), str(folder)], check=False).returncode:
        pytest.skip("mounting needs root")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def kill_workers(kills: int, rng: random.Random, over: threading.Event) -> None:
    """Kills one worker of this process at random moments."""
    while kills and not over.is_set():
        time.sleep(rng.uniform(0.2, 3.0))
        workers = []
        for child in psutil.Process().children():
            with suppress(psutil.NoSuchProcess):
                if "src.sweeps.launchers.processes" in child.cmdline():
                    workers.append(child)
        if workers:
            os.kill(rng.choice(workers).pid, signal.SIGKILL)
            kills -= 1


@pytest.mark.slow
def test_ten_kills_of_workers_at_random_moments_cost_nothing_but_time(sweep_it: SweepIt, plan_it: PlanIt) -> None:
    over = threading.Event()
    killer = threading.Thread(target=kill_workers, args=(10, random.Random(0), over))
    killer.start()
    finished: dict[str, object] = {}
    for _ in range(15):
        swept = sweep_it(*WORDS, "sweep.max_attempts=50", run_jobs=TWO)
        found = records(swept.plan.group)
        assert {name: found[name] for name in finished} == finished, "a finished run was touched"
        finished = {name: record for name, record in found.items() if record.status == "finished"}
        if swept.code == 0 and not killer.is_alive():
            break
        if len(finished) == 4:
            shutil.rmtree(swept.plan.jobs[0].folder)  # more to kill
            finished.pop(swept.plan.jobs[0].run_id)
    over.set()
    killer.join()
    assert len(finished) == 4
    unbroken = sweep_it(*WORDS, "group=unbroken")
    for job, other in zip(plan_it(*WORDS).jobs, unbroken.plan.jobs, strict=True):
        assert logged(job.folder) == logged(other.folder)


@pytest.mark.slow
def test_a_full_disk_fails_jobs_with_its_name_and_room_lets_the_rerun_complete(
    sweep_it: SweepIt, tmp_path: Path
) -> None:
    words = (*WORDS, "model.d_model=64", "runs_dir=small")
    disk = tmp_path / "small"
    with small_disk(disk, "3m"):
        swept = sweep_it(*words)
        assert swept.code == 1
        assert "No space left on device" in swept.text, swept.text
        before = records(swept.plan.group)
        subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
        assert sweep_it(*words).code == 0
        after = records(swept.plan.group)
        for name, record in before.items():
            assert record.status != "finished" or after[name] == record
        assert len(read_plans(swept.plan.group)) == 1


@pytest.mark.slow
def test_a_run_folder_that_cannot_be_written_fails_its_job_alone(sweep_it: SweepIt, plan_it: PlanIt) -> None:
    folder = plan_it("heads=1,2").jobs[0].folder
    folder.mkdir(parents=True)
    with read_only(folder):
        swept = sweep_it("heads=1,2")
        assert swept.code == 1
        assert "Read-only file system" in swept.text
        assert "2 jobs: 1 failed, 1 finished" in swept.text
    assert sweep_it("heads=1,2").code == 0


@pytest.mark.slow
def test_a_group_that_cannot_be_written_is_said_before_anything_runs(sweep_it: SweepIt) -> None:
    swept = sweep_it("heads=1")
    with read_only(swept.plan.group), pytest.raises(RunError, match="cannot be used"):
        sweep_it("heads=1,2")
    assert sweep_it("heads=1,2").code == 0


@pytest.mark.slow
def test_a_wandb_server_that_never_answers_lengthens_each_job_by_seconds(
    sweep_it: SweepIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        swept = sweep_it("heads=1,2", "logger=wandb", "logger.mode=online", "logger.timeout_s=4.0")
    assert swept.code == 0
    outcomes = [record.environment["logger"] for record in records(swept.plan.group).values()]
    assert {outcome["state"] for outcome in outcomes} <= {"offline", "incomplete"}
    assert all(outcome["reason"] for outcome in outcomes)
