"""How a group stands, read from its folders alone."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from src.errors import RunError
from src.sweeps.plan import estimate
from src.sweeps.status import Group, Seen, best, seconds_left, status_table
from src.training.folder import claim
from tests.sweeps.conftest import PlanIt, SweepIt


def shown(folder: Path) -> str:
    console = Console(width=160)
    with console.capture() as captured:
        console.print(status_table(folder, Group(folder).look()))
    return captured.get()


def test_every_planned_run_is_counted_once_whatever_became_of_it(sweep_it: SweepIt) -> None:
    swept = sweep_it("heads=1,2,4,3", "seed=0,1", "sweep.invalid=skip")
    group, (first, second, third, *_) = swept.plan.group, swept.plan.jobs
    record = first.folder / "record.json"
    record.write_text(record.read_text().replace('"finished"', '"running"'))
    (second.folder / "record.json").unlink()
    (third.folder / "record.json").write_text("{ torn")
    runs = Group(group).look()
    assert Counter(run.state for run in runs) == {"killed": 1, "new": 1, "damaged": 1, "finished": 3, "skipped": 2}
    assert len({run.run_id for run in runs}) == 8
    text = shown(group)
    assert "heads=4" in text
    assert "3 of 6 finished (50%)" in text
    assert "python -m src.sweep retry" in text


def test_a_run_that_is_held_runs_and_shows_how_far_it_is(sweep_it: SweepIt) -> None:
    swept = sweep_it("heads=1,2")
    job = swept.plan.jobs[0]
    record = job.folder / "record.json"
    record.write_text(record.read_text().replace('"finished"', '"running"'))
    held = claim(job.folder.parent, job.run_id, "auto")
    with (job.folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 99, "torn')
    (running,) = [run for run in Group(swept.plan.group).look() if run.state == "running"]
    assert (running.step, running.steps) == (12, 12)
    held.release()


def test_what_is_over_is_read_once_and_what_changed_again(sweep_it: SweepIt) -> None:
    swept = sweep_it("heads=1,2")
    group = Group(swept.plan.group)
    group.look()
    first, second = (job.folder / "record.json" for job in swept.plan.jobs)
    stamp = first.stat().st_mtime_ns
    import os

    text = first.read_text()
    first.write_text("not read again")
    os.utime(first, ns=(stamp, stamp))
    second.write_text("read again")
    assert sorted(run.state for run in group.look()) == ["damaged", "finished"]
    first.write_text(text)


def test_time_left_and_the_best_run_follow_from_what_is_finished() -> None:
    runs = [
        Seen("a", "finished", {"heads": 1}, loss=2.0, seconds=100.0),
        Seen("b", "finished", {"heads": 2}, loss=1.5, seconds=100.0),
        Seen("c", "running", {"heads": 4}, step=50, steps=100),
        Seen("d", "running", {"heads": 8}, step=50, steps=100),
        Seen("e", "new", {"heads": 16}),
        Seen("f", "failed", {"heads": 3}, loss=0.1),
    ]
    assert seconds_left(runs) == pytest.approx((50 + 50 + 100) / 2)
    assert seconds_left(runs[:2]) is None
    winner = best(runs)
    assert winner is not None
    assert winner.run_id == "b"


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_a_folder_without_runs_is_said_so(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match="a sweep's folder"):
        Group(tmp_path / name).look()


def test_a_clock_that_jumps_back_leaves_no_negative_times(sweep_it: SweepIt, plan_it: PlanIt) -> None:
    swept = sweep_it("heads=1")
    path = swept.plan.jobs[0].folder / "record.json"
    content = json.loads(path.read_text())
    content["ended_at"] = "2001-01-01T00:00:00.000+00:00"
    path.write_text(json.dumps(content))
    (seen,) = Group(swept.plan.group).look()
    assert seen.seconds == 0
    assert estimate(plan_it("heads=1", "seed=1").jobs, swept.plan.group.parent) is None
    assert sweep_it("heads=1").code == 0


@pytest.mark.slow
def test_ten_thousand_runs_are_looked_at_within_seconds(sweep_it: SweepIt) -> None:
    swept = sweep_it("heads=1")
    text = (swept.plan.jobs[0].folder / "record.json").read_bytes()
    for number in range(10_000):
        folder = swept.plan.group / f"run-{number}"
        folder.mkdir()
        (folder / "record.json").write_bytes(text)
    since = time.perf_counter()
    shown(swept.plan.group)
    assert time.perf_counter() - since < 5
