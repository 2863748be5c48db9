"""A sweep from its plan to its exit code."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from src.errors import ConfigError
from src.run_status import RunStatus, State
from src.sweep_file import read_plans
from src.sweeps import progress as progress_module
from src.sweeps.job import Outcome
from src.sweeps.launchers import Local
from src.sweeps.plan import SweepPlan
from src.sweeps.progress import Progress
from src.sweeps.run import exit_code
from src.training import loop
from src.training.folder import claim
from tests.sweeps.conftest import PlanIt, SweepIt, records
from tests.training.conftest import logged


class Fault:
    """Raises in a step of the job with these heads, as many times as asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: BaseException, heads: int = 2, times: int = 99) -> None:
        self.times = times
        real = loop.Trainer.step

        def step(trainer: loop.Trainer, number: int, *rest: object) -> object:
            if number == 6 and self.times > 0 and _heads(trainer) == heads:
                self.times -= 1
                raise error
            return real(trainer, number, *rest)  # pyright: ignore[reportArgumentType, reportCallIssue]

        monkeypatch.setattr(loop.Trainer, "step", step)


def _heads(trainer: loop.Trainer) -> int:
    return int(trainer.model.geometry.heads)  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]


@pytest.mark.parametrize(
    ("error", "state"),
    [(ValueError("broken"), "failed"), (SystemExit(0), "failed"), (SystemExit(3), "failed"), (MemoryError(), "oom")],
)
def test_a_job_that_ends_badly_is_contained_recorded_and_makes_the_command_fail(
    sweep_it: SweepIt, monkeypatch: pytest.MonkeyPatch, error: BaseException, state: str
) -> None:
    Fault(monkeypatch, error)
    swept = sweep_it("heads=1,2,4")
    assert swept.code == 1
    assert swept.states == {"heads=1": "finished", "heads=2": state, "heads=4": "finished"}
    record = swept.plan.jobs[1].status().record
    assert record is not None
    assert record.error is not None
    assert "Traceback" in record.error["traceback"]
    assert "Traceback" in (swept.plan.jobs[1].folder / "log.txt").read_text()
    assert type(error).__name__ in swept.text
    assert "3 jobs: 2 finished, 1 " + state in swept.text


def test_three_failures_are_all_named_each_with_its_own_message(
    sweep_it: SweepIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(trainer: loop.Trainer, *rest: object) -> object:
        raise ValueError(f"no luck with {_heads(trainer)}")

    monkeypatch.setattr(loop.Trainer, "step", step)
    swept = sweep_it("heads=1,2,4")
    for job in swept.plan.jobs:
        message = f"no luck with {job.config.heads}"
        assert message in swept.text
        assert message in (job.folder / "log.txt").read_text()


def test_fail_fast_starts_no_further_job_and_says_which(sweep_it: SweepIt, monkeypatch: pytest.MonkeyPatch) -> None:
    Fault(monkeypatch, ValueError("broken"))
    swept = sweep_it("heads=1,2,4", "sweep.fail_fast=true")
    assert swept.code == 1
    assert swept.states == {"heads=1": "finished", "heads=2": "failed", "heads=4": "not_run"}
    assert "not run" in swept.text
    (plan,) = read_plans(swept.plan.group)
    assert [job["state"] for job in plan["jobs"]] == ["finished", "failed", "not_run"]


def test_the_same_command_again_runs_exactly_what_is_missing(
    sweep_it: SweepIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    Fault(monkeypatch, ValueError("broken"), times=1)
    first = sweep_it("heads=1,2,4", "sweep.fail_fast=true")
    before = records(first.plan.group)
    second = sweep_it("heads=1,2,4")
    assert second.code == 0
    after = records(second.plan.group)
    done = first.plan.jobs[0].run_id
    assert after[done] == before[done]
    assert [len(after[job.run_id].segments) for job in second.plan.jobs] == [1, 2, 1]
    assert after[first.plan.jobs[1].run_id].segments[1]["from_step"] == 4  # its checkpoint, not the start
    third = sweep_it("heads=1,2,4")
    assert third.code == 0
    assert not [line for line in third.text.splitlines() if line.startswith("[")], "a finished job was launched"
    assert records(second.plan.group) == after


def test_more_seeds_and_arms_top_a_sweep_up_and_a_changed_setting_makes_new_runs(
    finished: SweepPlan, sweep_it: SweepIt
) -> None:
    more = sweep_it("heads=1,2,4", "seed=0,1,2")
    assert len([line for line in more.text.splitlines() if line.startswith("[") and "finished" in line]) == 3
    (plan,) = read_plans(finished.group)
    assert len(plan["jobs"]) == 9
    sweep_it("heads=1", "training.max_steps=13")
    assert len([record for record in records(finished.group).values() if record.status == "finished"]) == 10
    assert [len(plan["jobs"]) for plan in read_plans(finished.group)] == [9, 1]


def test_failed_jobs_are_retried_up_to_a_limit_and_beyond_it_when_asked(
    sweep_it: SweepIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = Fault(monkeypatch, ValueError("broken"), times=99)
    for _ in range(4):
        swept = sweep_it("heads=1,2", "sweep.max_attempts=2")
        assert swept.code == 1
    assert fault.times == 99 - 2
    assert "1 failed, not retried" in swept.text  # pyright: ignore[reportPossiblyUnboundVariable]
    assert "python -m src.sweep retry" in swept.text  # pyright: ignore[reportPossiblyUnboundVariable]
    fault.times = 0
    assert sweep_it("heads=1,2", "sweep.max_attempts=2", "sweep.retry=true").code == 0


def test_a_divergence_is_a_result_and_not_retried(sweep_it: SweepIt) -> None:
    words = ("training.learning_rate=1e30,0.001", "training.grad_clip=0.0", "model.norm=none")
    first, second = sweep_it(*words), sweep_it(*words)
    assert first.code == second.code == 1
    assert list(second.states.values()) == ["diverged", "finished"]
    record = second.plan.jobs[0].status().record
    assert record is not None
    assert len(record.segments) == 1


def test_points_that_cannot_be_stop_a_sweep_before_anything_is_made(sweep_it: SweepIt, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"heads=3 does not divide d_model=16.*sweep.invalid=skip"):
        sweep_it("heads=3,4")
    assert not (tmp_path / "runs").exists()


def test_points_that_cannot_be_are_recorded_as_skipped_when_asked(finished: SweepPlan) -> None:
    found = records(finished.group)
    assert Counter(record.status for record in found.values()) == {"finished": 6, "skipped": 2}
    skipped = [record for record in found.values() if record.status == "skipped"]
    assert {record.config["heads"] for record in skipped} == {3}
    assert all("does not divide" in record.error["message"] for record in skipped if record.error)
    (plan,) = read_plans(finished.group)
    assert {point["run_id"] for point in plan["skipped"]} == {record.run_id for record in skipped}


def test_a_dry_run_shows_the_plan_and_makes_nothing(sweep_it: SweepIt, tmp_path: Path) -> None:
    swept = sweep_it("heads=1,2,2", "seed=0,1", "sweep.dry_run=true")
    assert swept.code == 0
    assert "4 jobs: 2 arms (heads) x 2 seeds" in swept.text
    assert "4 to run" in swept.text
    assert "2 points that name a run already named" in swept.text
    assert not (tmp_path / "runs").exists()


def test_the_plan_tells_time_and_disk_by_runs_that_are_finished(finished: SweepPlan, sweep_it: SweepIt) -> None:
    assert "no finished run is like these" in sweep_it("model.layers=1", "sweep.dry_run=true").text
    text = sweep_it("heads=1,2", "seed=2", "sweep.dry_run=true").text
    assert "for 2 jobs" in text
    assert "on disk (by 4 finished runs)" in text


def test_a_signal_in_one_job_ends_the_sweep_tidily_and_the_rerun_completes_it(
    sweep_it: SweepIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(trainer: loop.Trainer, number: int, *rest: object) -> object:
        if _heads(trainer) == 2 and number == 6:
            signal.raise_signal(signal.SIGINT)
        return real(trainer, number, *rest)  # pyright: ignore[reportArgumentType, reportCallIssue]

    real = loop.Trainer.step
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with monkeypatch.context() as patch:
        patch.setattr(loop.Trainer, "step", interrupt)
        swept = sweep_it("heads=1,2,4", "seed=0")
    assert swept.code == 130
    assert list(swept.states.values()) == ["finished", "interrupted", "not_run"]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert "the same command again" in swept.text
    assert sweep_it("heads=1,2,4", "seed=0").code == 0
    assert sorted(logged(swept.plan.jobs[1].folder)) == [2, 4, 5, 6, 8, 10, 12]


def test_a_signal_in_an_evaluation_ends_the_sweep_as_tidily(sweep_it: SweepIt, monkeypatch: pytest.MonkeyPatch) -> None:
    real = loop.evaluate

    def evaluate(model: object, *rest: object):
        for phase in (evaluation := real(model, *rest)):  # pyright: ignore[reportArgumentType]
            if getattr(model, "geometry").heads == 2:  # noqa: B009
                signal.raise_signal(signal.SIGTERM)
            yield phase
        return evaluation

    with monkeypatch.context() as patch:
        patch.setattr(loop, "evaluate", evaluate)
        swept = sweep_it("heads=2,4")
    assert swept.code == 143
    assert list(swept.states.values()) == ["preempted", "not_run"]
    assert sweep_it("heads=2,4").code == 0


def test_a_job_that_another_process_runs_is_waited_for_and_taken_over_when_it_is_let_go(
    sweep_it: SweepIt, plan_it: PlanIt, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = plan_it("heads=1,2").jobs[0]
    held = claim(job.folder.parent, job.run_id, "auto")
    monkeypatch.setattr(progress_module.time, "sleep", lambda _: held.release())
    swept = sweep_it("heads=1,2")
    assert swept.code == 0
    assert "waiting for 1 of the jobs" in swept.text
    assert swept.states == {"heads=1": "finished", "heads=2": "finished"}


@pytest.mark.parametrize(
    ("states", "signal_number", "code"),
    [
        (["finished", "finished"], None, 0),
        (["finished", "finished"], signal.SIGINT, 0),
        (["finished", "preempted"], None, 143),
        (["finished", "interrupted"], None, 130),
        (["failed", "preempted"], None, 1),
        (["finished", "not_run"], None, 1),
        (["finished", "killed"], None, 1),
        (["finished", "running"], None, 1),
        (["failed", "not_run"], signal.SIGINT, 130),
        (["finished", "not_run"], signal.SIGTERM, 143),
    ],
)
def test_the_exit_code_is_0_only_where_all_finished(states: list[State], signal_number: int | None, code: int) -> None:
    assert exit_code([RunStatus(Path("run"), state) for state in states], signal_number) == code


def test_a_job_that_fails_before_it_has_a_folder_is_named_all_the_same(sweep_it: SweepIt, tmp_path: Path) -> None:
    def fail_without_a_word(jobs, progress: Progress) -> None:
        for job in jobs[1:]:
            progress.begins(job)
            progress.ends(job, Outcome("failed", "OSError: No space left on device"))
        Local().run_jobs(jobs[:1], progress)

    swept = sweep_it("heads=1,2", run_jobs=fail_without_a_word)
    assert swept.code == 1
    assert "No space left on device" in swept.text
    assert "2 jobs: 1 finished, 1 failed" in swept.text
