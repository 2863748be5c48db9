"""How a group stands, read from its folders alone."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from src.errors import RunError
from src.export.read import read_group
from src.run_status import RunStatus, State
from src.sweeps.estimate import estimate
from src.sweeps.plan import SweepPlan
from src.sweeps.status import Group, best, seconds_left, status_table
from src.training.folder import claim
from tests.sweeps.conftest import PlanIt, SweepIt


def shown(folder: Path) -> str:
    console = Console(width=160)
    with console.capture() as captured:
        console.print(status_table(folder, Group(folder).look()))
    return captured.get()


def says_running(record: Path) -> None:
    record.write_text(record.read_text().replace('"finished"', '"running"'))


def test_every_planned_run_is_counted_once_whatever_became_of_it(finished: SweepPlan) -> None:
    first, second, third, *_ = finished.jobs
    says_running(first.folder / "record.json")
    (second.folder / "record.json").unlink()
    (third.folder / "record.json").write_text("{ torn")
    runs = Group(finished.group).look()
    assert Counter(run.state for run in runs) == {"killed": 1, "not_run": 1, "damaged": 1, "finished": 3, "skipped": 2}
    assert len({run.run_id for run in runs}) == 8
    text = shown(finished.group)
    assert "heads=4" in text
    assert "3 of 6 finished (50%)" in text
    assert "python -m src.sweep retry" in text


def test_a_run_that_is_held_runs_and_shows_how_far_it_is(finished: SweepPlan) -> None:
    job = finished.jobs[0]
    says_running(job.folder / "record.json")
    held = claim(job.folder.parent, job.run_id, "auto")
    with (job.folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 99, "torn')
    assert [run.run_id for run in Group(finished.group).look() if run.state == "running"] == [job.run_id]
    assert "step 12/12 (100%)" in shown(finished.group)
    held.release()


def test_status_sweep_and_export_call_a_killed_run_killed(finished: SweepPlan) -> None:
    job = finished.jobs[0]
    says_running(job.folder / "record.json")
    assert job.status().state == "killed"
    assert "killed" in shown(finished.group)
    (exported,) = [run.record for run in read_group(finished.group).runs if run.record.run_id == job.run_id]
    assert exported.status == "killed"


def test_what_is_over_is_read_once_and_what_changed_again(finished: SweepPlan) -> None:
    group = Group(finished.group)
    before = Counter(run.state for run in group.look())
    first, second = (job.folder / "record.json" for job in finished.jobs[:2])
    stamp = first.stat().st_mtime_ns
    first.write_text("not read again")
    os.utime(first, ns=(stamp, stamp))
    second.write_text("read again")
    assert Counter(run.state for run in group.look()) == before - Counter(["finished"]) + Counter(["damaged"])


def test_time_left_and_the_best_run_follow_from_what_is_finished(finished: SweepPlan) -> None:
    record = finished.jobs[0].status().record
    assert record is not None
    began, ended = "2026-01-01T00:00:00.000+00:00", "2026-01-01T00:01:40.000+00:00"
    folder = finished.jobs[0].folder  # its last logged step is 12

    def run(state: State, heads: int, loss: float | None = None) -> RunStatus:
        config = {**record.config, "training": {**record.config["training"], "max_steps": 24}}
        of_run = replace(record, started_at=began, ended_at=ended, config=config, summary={"val/loss": loss})
        return RunStatus(folder, state, of_run, {"heads": heads})

    runs = [run("finished", 1, 2.0), run("finished", 2, 1.5), run("running", 4), run("running", 8)]
    runs += [RunStatus(folder, "not_run"), run("failed", 3, 0.1)]
    assert seconds_left(runs) == pytest.approx((50 + 50 + 100) / 2)
    assert seconds_left(runs[:2]) is None
    winner = best(runs)
    assert winner is not None
    assert winner.label == "heads=2"


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_a_folder_without_runs_is_said_so(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match="a sweep's folder"):
        Group(tmp_path / name).look()


def test_a_clock_that_jumps_back_leaves_no_negative_times(
    finished: SweepPlan, plan_it: PlanIt, sweep_it: SweepIt
) -> None:
    for job in finished.jobs:
        path = job.folder / "record.json"
        content = json.loads(path.read_text())
        path.write_text(json.dumps(content | {"ended_at": "2001-01-01T00:00:00.000+00:00"}))
    assert {run.seconds for run in Group(finished.group).look()} == {None}
    assert estimate(plan_it("heads=1", "seed=2").jobs, finished.group.parent) is None
    assert sweep_it("heads=1").code == 0


@pytest.mark.slow
def test_ten_thousand_runs_are_looked_at_within_seconds(finished: SweepPlan) -> None:
    text = (finished.jobs[0].folder / "record.json").read_bytes()
    for number in range(10_000):
        folder = finished.group / f"run-{number}"
        folder.mkdir()
        (folder / "record.json").write_bytes(text)
    since = time.perf_counter()
    shown(finished.group)
    assert time.perf_counter() - since < 5
