"""`python -m src.train` and `python -m src.sweep` as they are typed, from a folder of their own."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from src.record import Record
from src.sweep_file import read_plans
from tests.in_process import command
from tests.processes import Forked, run_module
from tests.sweeps.conftest import records
from tests.training.conftest import TEXT, TINY

LONG = ("training.max_steps=100000", "training.eval_interval=100000", "training.checkpoint_interval=20")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path


def tiny(words: tuple[str, ...]) -> list[str]:
    given = {name for word in words for name in word.partition("=")[0].strip("()").split(",")} | {"kv_heads"}
    return [*words, *(word for word in TINY if word.partition("=")[0] not in given), "data.path=text.txt"]


def start(here: Path, *words: str) -> Forked:
    """In a process of its own: to be signalled, killed, or run beside another one."""
    environment = {**os.environ, "CI": "true", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return Forked(run_module, "src.train", *tiny(words), cwd=here, env=environment)


def end(process: Forked) -> tuple[int, str]:
    return process.wait(timeout=300), process.output


def train(here: Path, *words: str) -> tuple[int, str]:
    done = command("src.train", *tiny(words), here=here)
    return done.returncode, done.stdout + done.stderr


def sweep(here: Path, *words: str) -> tuple[int, str]:
    done = command("src.sweep", *words, here=here)
    return done.returncode, done.stdout + done.stderr


def wait_for_rows(process: Forked, group: Path, runs: int) -> None:
    """Until so many runs of the group have begun to log."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if len([path for path in group.glob("*/metrics.jsonl") if path.stat().st_size]) >= runs:
            return
        assert process.poll() is None, process.output
        time.sleep(0.02)
    raise AssertionError("no rows in time")


def test_a_sweep_file_runs_from_any_folder_resumes_and_is_shown(here: Path) -> None:
    words = ("sweeps=smoke", "(heads,kv_heads)=(4,4),(4,1)", "seed=0")
    code, text = train(here, *words)
    assert code == 0, text
    assert "sweep smoke: does everything that a sweep needs work here?" in text
    found = records(here / "runs" / "smoke")
    assert {(r.config["heads"], r.config["kv_heads"]) for r in found.values()} == {(4, 4), (4, 1)}
    assert {r.status for r in found.values()} == {"finished"}
    code, text = train(here, *words)
    assert code == 0
    assert "2 finished" in text
    assert records(here / "runs" / "smoke") == found
    code, text = sweep(here, "status", "runs/smoke")
    assert code == 0
    assert "2 of 2 finished (100%)" in text
    assert "heads=4 kv_heads=1" in text


def test_a_killed_sweep_is_completed_by_the_same_command_and_nothing_runs_twice(here: Path) -> None:
    words = ("-m", "(heads,training.max_steps)=(1,12),(2,12),(4,600),(8,12)", *LONG[1:])
    process = start(here, *words)
    wait_for_rows(process, here / "runs" / "single", 3)
    process.kill()
    end(process)
    before = records(here / "runs" / "single")
    assert sorted(r.status for r in before.values()) == ["finished", "finished", "running"]
    assert "killed" in sweep(here, "status", "runs/single")[1]
    code, text = train(here, *words)
    assert code == 0, text
    assert "2 finished, 1 to be continued, 1 to run" in text
    after = records(here / "runs" / "single")
    assert {name: record for name, record in after.items() if before.get(name) == record}.keys() == {
        name for name, record in before.items() if record.status == "finished"
    }
    assert {r.status for r in after.values()} == {"finished"}


def test_ctrl_c_in_the_second_job_of_four_ends_tidily_and_the_rerun_completes_the_sweep(here: Path) -> None:
    words = ("-m", "(heads,training.max_steps)=(1,12),(2,500),(4,12),(8,12)", *LONG[1:])
    process = start(here, *words)
    wait_for_rows(process, here / "runs" / "single", 2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    code, text = end(process)
    assert code == 130, text
    assert "4 jobs: 1 finished, 1 interrupted, 2 not run" in text
    assert sorted(r.status for r in records(here / "runs" / "single").values()) == ["finished", "interrupted"]
    code, text = train(here, *words)
    assert code == 0, text


def test_two_invocations_at_once_share_the_work_and_both_succeed(here: Path) -> None:
    both = [start(here, "-m", "heads=1,2,4", "seed=0,1") for _ in range(2)]
    endings = [end(process) for process in both]
    assert [code for code, _ in endings] == [0, 0], endings
    found = records(here / "runs" / "single")
    assert len(found) == 6
    assert {len(r.segments) for r in found.values()} == {1}
    assert len({r.environment["pid"] for r in found.values()}) == 2


def test_two_sweeps_into_one_group_keep_both_plans(here: Path) -> None:
    both = [start(here, "-m", f"heads={heads}", "seed=0,1") for heads in (1, 2)]
    assert [end(process)[0] for process in both] == [0, 0]
    plans = read_plans(here / "runs" / "single")
    assert sorted(plan["jobs"][0]["overrides"][0] for plan in plans) == ["seed=0", "seed=0"]
    assert {job["run_id"] for plan in plans for job in plan["jobs"]} == set(records(here / "runs" / "single"))
    assert {job["state"] for plan in plans for job in plan["jobs"]} == {"finished"}


def test_retry_runs_failed_jobs_again_whatever_the_limit(here: Path) -> None:
    words = ("-m", "(heads,device)=(1,cpu),(2,cuda:99)", "sweep.max_attempts=1")
    assert train(here, *words)[0] == 1
    code, text = train(here, *words)
    assert code == 1
    assert "1 failed, not retried" in text
    failed = next(path for path in (here / "runs" / "single").iterdir() if "-h2-" in path.name)
    assert len(Record.read(failed).segments) == 1
    assert sweep(here, "retry", "runs/single")[0] == 1
    assert [segment["status"] for segment in Record.read(failed).segments] == ["failed", "failed"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-m", "head=1,2"], "unknown setting 'head'; did you mean 'heads'?"),
        (["-m", "heads=3,5", "model.d_model=16"], "heads=3 does not divide d_model=16"),
        (["-m", "heads=1,2", "heads=4"], "heads is given twice"),
        (["-m", "sweeps=smok"], "did you mean 'smoke'?"),
        (["heads=2", "sweep.dry_run=true"], "this is one run; add -m, or leave it out"),
        (["-m", "hydra/launcher=submitit_slurm"], "pip install hydra-submitit-launcher; hydra/launcher=slurm"),
    ],
)
def test_what_cannot_be_run_as_asked_is_said_in_a_line_and_nothing_is_made(
    here: Path, words: list[str], message: str
) -> None:
    code, text = train(here, *words)
    assert code == 2, text
    assert message in text
    assert "Traceback" not in text
    assert not (here / "runs").exists()


def test_one_of_several_processes_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, text = train(here, "heads=4")
    assert code == 2
    assert "started as one of 2 processes" in text
