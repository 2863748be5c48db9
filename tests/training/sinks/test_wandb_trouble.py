"""Real wandb in trouble: a server that is silent or lost, a child that hangs or is killed, training that is killed."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from src import ROOT
from src.record import read_rows
from src.training.events import Ended, Started
from src.training.sinks.jsonl import JsonlSink
from src.training.sinks.wandb_sink import WandbSink
from tests.training.sinks.conftest import MakeRun, StandIn
from tests.training.sinks.wandb_play import PARENT, MakeLogger, children_of, inspect, play, rows_of

pytestmark = pytest.mark.usefixtures("one_child")


def test_a_server_that_never_answers_costs_a_bounded_time_and_the_run_is_kept_offline(
    make_run: MakeRun, logger: MakeLogger, stand_in: StandIn
) -> None:
    play(logger(), make_run("before the silence"), [1])  # the child has imported wandb then, as in a run of minutes
    run = make_run("silence")
    stand_in.silent.set()
    began = time.monotonic()
    outcome, said = play(logger(mode="online", timeout_s=4.0), run, [10, 20])
    stand_in.silent.clear()
    assert time.monotonic() - began < 8
    assert outcome["state"] == "offline"
    assert "did not answer" in outcome["reason"] or "timed out" in outcome["reason"]
    assert len([line for line in said if "later" not in line]) == 1
    assert [row["_step"] for row in inspect(run[1])["history"]] == [10, 20]


def test_a_server_lost_in_mid_run_costs_a_bounded_time_and_says_how_to_mirror_later(
    make_run: MakeRun, logger: MakeLogger, stand_in: StandIn
) -> None:
    record, folder = make_run("lost server")
    said: list[str] = []
    mirror = WandbSink(logger(mode="online", timeout_s=3.0), folder, said.append)
    truth = JsonlSink(folder, 1)
    mirror.write(Started(0, 100, 1))
    while not (folder / "wandb" / "mirror.json").exists():
        time.sleep(0.02)
    stand_in.silent.set()
    for row in rows_of([10, 20]):
        truth.write(row)
        mirror.write(row)
    began = time.monotonic()
    mirror.write(Ended(replace(record, status="finished"), folder))
    took = time.monotonic() - began
    mirror.close()
    truth.close()
    stand_in.silent.clear()
    assert took < 6
    assert mirror.outcome["state"] == "incomplete"
    assert mirror.outcome["later"].endswith(f"wandb_mirror '{folder}' --mode online")
    assert said[-1].endswith(mirror.outcome["later"])
    assert [row["step"] for row in read_rows(folder)] == [10, 20]

    command = [sys.executable, "-m", "src.training.sinks.wandb_mirror", str(folder), "--mode", "online"]
    replace(record, status="finished").write(folder)
    later = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert later.returncode == 0, later.stderr
    stored = stand_in.runs[mirror.outcome["id"]]
    assert [row["_step"] for row in stored.history] == [10, 20]
    assert stored.exit_code == 0


def test_training_goes_on_when_the_child_is_killed(make_run: MakeRun, logger: MakeLogger) -> None:
    record, folder = make_run("killed child")
    said: list[str] = []
    mirror = WandbSink(logger(), folder, said.append)
    mirror.write(Started(0, 100, 1))
    children_of(os.getpid())[0].kill()
    for row in rows_of([10, 20]):
        mirror.write(row)
    mirror.write(Ended(replace(record, status="finished"), folder))
    mirror.close()
    assert mirror.outcome["state"] == "incomplete"
    assert "ended early" in mirror.outcome["reason"]
    next_outcome, _ = play(logger(), make_run("the next one"), [10])
    assert next_outcome["state"] == "offline"


def test_a_child_that_hangs_is_ended_in_time_with_all_that_it_started(make_run: MakeRun, logger: MakeLogger) -> None:
    record, folder = make_run("hanging child")
    mirror = WandbSink(logger(timeout_s=1.0), folder, print)
    mirror.write(Started(0, 100, 1))
    while not (folder / "wandb" / "mirror.json").exists():
        time.sleep(0.02)
    (child,) = children_of(os.getpid())
    family = [child, *child.children(recursive=True)]
    child.suspend()
    began = time.monotonic()
    mirror.write(Ended(replace(record, status="finished"), folder))
    mirror.close()
    assert time.monotonic() - began < 4
    assert mirror.outcome["state"] == "incomplete"
    assert "logger.timeout_s=1" in mirror.outcome["reason"]
    assert len(family) == 2  # wandb's own service is the other
    assert [member for member in family if member.is_running() and member.status() != psutil.STATUS_ZOMBIE] == []


def test_when_training_is_killed_the_child_mirrors_what_is_there_and_ends_by_itself(make_run: MakeRun) -> None:
    _, folder = make_run("killed parent")
    command = [sys.executable, "-c", PARENT, str(folder), "offline"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        while "logged" not in parent.stdout.readline():
            pass
        children = children_of(parent.pid)
        parent.send_signal(signal.SIGKILL)
    assert len(children) == 1
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []
    found = inspect(folder)
    assert [row["_step"] for row in found["history"]] == list(range(1, 51))
    assert found["exit_code"] == 1
