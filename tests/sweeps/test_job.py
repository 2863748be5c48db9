"""One job neither stops another nor leaks into it."""

from __future__ import annotations

import gc
import logging
import os
import random
import signal
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

from src.record import Record
from src.sweeps.job import Outcome, WorkerKilled, isolated, record_ending, run_job
from src.sweeps.plan import Job
from src.training import loop, run
from src.training.folder import claim
from src.training.stop import StopFlag
from tests.sweeps.conftest import LOAD, PlanIt, SweepIt


def attempt(job: Job, stop: StopFlag | None = None) -> Outcome:
    return run_job(job.config, job.folder.parents[2], stop or StopFlag(), LOAD, lambda *_: [])


def test_a_second_ctrl_c_interrupts_the_job_and_asks_the_sweep_to_stop(
    plan_it: PlanIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "load_checkpoint", interrupted)
    stop = StopFlag()
    assert attempt(plan_it().jobs[0], stop).state == "interrupted"
    assert stop.signal_number == signal.SIGINT


def test_a_job_that_fails_before_its_first_record_still_gets_one(
    plan_it: PlanIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = plan_it("device=cuda:99").jobs[0]
    outcome = attempt(job)
    assert outcome.state == "failed"
    record = Record.read(job.folder)
    assert record.status == "failed"
    assert record.error is not None
    assert "device=cuda:99" in record.error["message"]
    assert outcome.error == f"ConfigError: {record.error['message']}"


def test_a_disk_that_is_full_fails_the_job_and_nothing_else(plan_it: PlanIt, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    job = plan_it().jobs[0]
    with monkeypatch.context() as patch:
        patch.setattr(Record, "write", full)
        outcome = attempt(job)
    assert outcome.state == "failed"
    assert "No space left" in (outcome.error or "")
    assert attempt(job).state == "finished"


def test_a_run_that_another_process_holds_is_not_touched(plan_it: PlanIt) -> None:
    job = plan_it().jobs[0]
    held = claim(job.folder.parent, job.run_id, "auto")
    assert attempt(job).state == "running"
    record_ending(job.folder, job.config, job.geometry, "failed", WorkerKilled("gone"))
    assert not (job.folder / "record.json").exists()
    held.release()


def test_a_finished_run_keeps_its_ending(plan_it: PlanIt) -> None:
    job = plan_it().jobs[0]
    assert attempt(job).state == "finished"
    record_ending(job.folder, job.config, job.geometry, "failed", WorkerKilled("gone"))
    assert Record.read(job.folder).status == "finished"


def test_nothing_of_a_job_is_left_in_its_process() -> None:
    class Left:
        before = (
            dict(os.environ),
            os.getcwd(),
            random.getstate(),
            list(logging.root.handlers),
            signal.getsignal(signal.SIGTERM),
        )
        numpy, torch = str(np.random.get_state()), torch.get_rng_state()

    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    with isolated(StopFlag()):
        os.environ["LEFT_BEHIND"] = "1"
        os.environ.pop("PATH")
        os.chdir("/")
        random.random()
        np.random.rand()
        torch.rand(1)
        torch.set_num_threads(threads + 1)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        logging.root.addHandler(logging.NullHandler())
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    after = (
        dict(os.environ),
        os.getcwd(),
        random.getstate(),
        list(logging.root.handlers),
        signal.getsignal(signal.SIGTERM),
    )
    assert after == Left.before
    assert str(np.random.get_state()) == Left.numpy
    assert torch.equal(torch.get_rng_state(), Left.torch)
    assert (torch.get_num_threads(), torch.get_default_dtype()) == (threads, dtype)
    assert torch.is_grad_enabled()


def test_a_job_out_of_memory_gives_its_memory_back_before_the_next_one(
    sweep_it: SweepIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    models: list[weakref.ref[torch.nn.Module]] = []
    alive: list[bool] = []
    real = loop.Trainer.step

    def step(trainer: loop.Trainer, number: int, *rest: object) -> object:
        if number == 6 and len(models) == 0:
            models.append(weakref.ref(trainer.model))  # pyright: ignore[reportArgumentType]
            raise torch.OutOfMemoryError("CUDA out of memory")
        alive.append(bool(models) and models[0]() is not None)
        return real(trainer, number, *rest)  # pyright: ignore[reportArgumentType, reportCallIssue]

    monkeypatch.setattr(loop.Trainer, "step", step)
    monkeypatch.setattr(logging.getLogger("headcount"), "propagate", False)  # pytest keeps what is logged
    gc.disable()
    try:
        swept = sweep_it("heads=1,2")
    finally:
        gc.enable()
    assert list(swept.states.values()) == ["oom", "finished"]
    assert not any(alive)


def test_jobs_leave_no_threads_and_no_log_files_open(sweep_it: SweepIt, tmp_path: Path) -> None:
    sweep_it("heads=1")
    before = threading.active_count(), len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    assert sweep_it("heads=2,4").code == 0
    after = threading.active_count(), len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    assert after == before
    assert not logging.getLogger("headcount").handlers
