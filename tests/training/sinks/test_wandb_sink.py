"""Real wandb, in its child process; one child serves the tests of this file, as it does the runs of a sweep."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from src import ROOT
from src.config import Config, LoggerConfig
from src.record import METRICS, SAMPLE, Record, Status, read_rows
from src.training.events import Ended, Event, Logged, Sink, Started
from src.training.sinks import open_sinks, wandb_sink
from src.training.sinks.jsonl import JsonlSink, keep_rows_until
from src.training.sinks.wandb_sink import WandbSink
from tests.training.sinks.conftest import StandIn

MakeRun = Callable[..., tuple[Record, Path]]
MakeLogger = Callable[..., LoggerConfig]


@pytest.fixture(scope="module", autouse=True)
def _one_child(stand_in: StandIn) -> Iterator[None]:
    wandb_sink.dismiss_idle()  # it would not know the stand-in's address
    yield
    wandb_sink.dismiss_idle()


@pytest.fixture
def logger(config: Config) -> MakeLogger:
    return lambda **changes: config.logger.model_copy(update={"timeout_s": 30.0, **changes})


def rows_of(steps: Sequence[int], start: float = 5.0) -> list[Logged]:
    return [
        Logged(step, {"train/loss": start - step / 100, "val/loss": 4.0 if step % 20 == 0 else None}) for step in steps
    ]


def play(
    logger: LoggerConfig,
    run: tuple[Record, Path],
    steps: Sequence[int],
    status: Status = "finished",
    start: float = 5.0,
    segment: int = 1,
    **ending: Any,
) -> tuple[dict[str, Any], list[str]]:
    """Plays one segment of a run to the truth and the mirror; returns the mirror's outcome and what it said."""
    record, folder = run
    said: list[str] = []
    mirror = WandbSink(logger, folder, said.append)
    sinks: list[Sink] = [JsonlSink(folder, segment, clock=lambda: 1.8e9), mirror]
    record.write(folder)
    ended = replace(record, status=status, **ending)
    events: list[Event] = [Started(steps[0] - 1, 100, segment), *rows_of(steps, start)]
    for event in events:
        for sink in sinks:
            sink.write(event)
    ended.write(folder)
    for sink in sinks:
        sink.write(Ended(ended, folder))
        sink.close()
    return mirror.outcome, said


def offline_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("wandb/offline-run-*/*.wandb"))


def inspect(folder: Path) -> dict[str, Any]:
    """What wandb's own reader finds in the one offline run of a folder."""
    (file,) = offline_files(folder)
    command = [Path(sys.executable).with_name("wandb"), "leet", "inspect", "--json", str(file)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    records = [json.loads(line) for line in output.splitlines()]
    found: dict[str, Any] = {"history": [], "summary": {}}
    for record in records:
        match record["type"]:
            case "run":
                found |= record["run"]
                found["config"] = record["run"]["config"]["update"]
            case "history":
                found["history"].append(record["history"]["item"])
            case "summary":
                found["summary"] |= record["summary"].get("update", {})
            case "exit":
                found["exit_code"] = record["exit"].get("exit_code", 0)
    return found


def test_offline_runs_of_one_process_are_complete_and_never_mixed(
    make_run: MakeRun, logger: MakeLogger, summary: dict[str, Any]
) -> None:
    first, second = make_run("first"), make_run("second")
    (first[1] / SAMPLE).write_text("ROMEO:\n<b>what</b>", encoding="utf-8")
    outcome, said = play(logger(), first, [10, 20], summary=summary)
    assert (outcome["state"], outcome["reason"], outcome["later"], outcome["rows"]) == ("offline", None, None, 2)
    assert len(said) == 1
    play(logger(), second, [7], status="failed", start=9.0)

    found = inspect(first[1])
    assert found["config"]["model"]["layers"] == 4
    assert found["config"]["model"]["residual"] is True
    assert found["config"]["head_dim"] is None
    assert found["config"]["logger"]["tags"] == ["first"]
    assert found["config"]["geometry"]["kv_heads"] == 2
    assert found["config"]["identity"]["config_hash"] == "0123456789ab"
    assert (found["run_group"], found["job_type"], found["notes"]) == ("single", "train", "a note")
    assert found["tags"] == ["first", "heads=8", "kv_heads=2"]
    assert [(row["_step"], row.get("train/loss"), row["_timestamp"]) for row in found["history"]] == [
        (10, 4.9, 1.8e9),
        (20, 4.8, 1.8e9),
    ]
    assert found["exit_code"] == 0
    assert found["summary"]["val/loss_best"] == 1.8712
    assert found["summary"]["val/loss_best_step"] == 1500
    assert found["summary"]["val/loss"] == 1.88123
    assert "memory/peak_bytes" not in found["summary"]
    (page,) = first[1].glob("wandb/offline-run-*/files/media/html/sample_20_*.html")
    assert page.read_text(encoding="utf-8") == "<pre>ROMEO:\n&lt;b&gt;what&lt;/b&gt;</pre>"

    found = inspect(second[1])
    assert [(row["_step"], row["train/loss"]) for row in found["history"]] == [(7, 8.93)]
    assert found["exit_code"] == 1
    assert found["summary"]["status"] == "failed"
    assert "val/loss_best" not in found["summary"]


def test_a_missing_number_is_not_logged_as_any_number(make_run: MakeRun, logger: MakeLogger) -> None:
    run = make_run()
    play(logger(), run, [10, 20])
    history = inspect(run[1])["history"]
    assert [row.get("val/loss", "absent") for row in history] == ["absent", 4.0]


def test_a_run_that_fails_before_its_first_step_is_there_and_failed(
    make_run: MakeRun, logger: MakeLogger, stand_in: StandIn
) -> None:
    record, folder = make_run("failed early")
    mirror = WandbSink(logger(mode="online"), folder, print)
    mirror.write(Ended(replace(record, status="oom"), folder))
    mirror.close()
    stored = stand_in.runs[mirror.outcome["id"]]
    assert (stored.exit_code, stored.summary["status"]) == (1, "oom")
    assert stored.history == []


def test_the_last_segment_of_an_offline_run_is_complete_by_itself(make_run: MakeRun, logger: MakeLogger) -> None:
    record, folder = make_run()
    play(logger(), (record, folder), [10, 20, 30], status="preempted")
    keep_rows_until(folder, step=20)
    outcome, _ = play(logger(), (record, folder), [30, 40], start=6.0, segment=2)
    found = inspect(folder)  # which finds exactly one
    assert outcome["rows"] == 4
    assert [(row["_step"], row["train/loss"]) for row in found["history"]] == [
        (10, 4.9),
        (20, 4.8),
        (30, 5.7),
        (40, 5.6),
    ]


def test_an_online_run_arrives_whole(
    make_run: MakeRun, logger: MakeLogger, stand_in: StandIn, summary: dict[str, Any]
) -> None:
    outcome, said = play(logger(mode="online"), make_run("online"), [10, 20], status="failed", summary=summary)
    stored = stand_in.runs[outcome["id"]]
    assert (outcome["state"], outcome["later"]) == ("online", None)
    assert said == [f"W&B: {outcome['url']}"]
    assert stored.config["model"]["d_model"] == 128
    assert stored.fields["groupName"] == "single"
    assert stored.fields["tags"] == ["first", "heads=8", "kv_heads=2"]
    assert stored.numbers("train/loss") == {10: 4.9, 20: 4.8}
    assert stored.numbers("val/loss") == {20: 4.0}
    assert stored.summary["val/loss_best_step"] == 1500
    assert stored.exit_code == 1


def test_an_online_run_that_goes_on_has_each_step_once(
    make_run: MakeRun, logger: MakeLogger, stand_in: StandIn
) -> None:
    record, folder = make_run("preempted")
    outcome, _ = play(logger(mode="online"), (record, folder), [10, 20, 30], status="preempted")
    stored = stand_in.runs[outcome["id"]]
    assert (stored.was_preempting, stored.exit_code) == (True, 143)
    keep_rows_until(folder, step=20)
    elsewhere = replace(record, environment={"device": "cuda"})
    again, _ = play(logger(mode="online"), (elsewhere, folder), [30, 40], segment=2)
    assert (again["state"], again["id"]) == ("online", outcome["id"])
    assert again["rows"] == 1  # the server has the others, and would drop them with a warning each
    assert [row["_step"] for row in stored.history] == [10, 20, 30, 40]
    assert stored.exit_code == 0


def test_the_same_run_in_another_folder_is_another_run_of_w_and_b(make_run: MakeRun, logger: MakeLogger) -> None:
    first, _ = play(logger(), make_run("same"), [1])
    record, folder = make_run("copy")
    second, _ = play(logger(), (replace(record, run_id="same"), folder), [1])
    assert first["id"] != second["id"]


def test_a_server_that_never_answers_costs_a_bounded_time_and_the_run_is_kept_offline(
    make_run: MakeRun, logger: MakeLogger, stand_in: StandIn
) -> None:
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


def test_what_an_offline_run_leaves_can_be_sent_by_wandb_sync(
    make_run: MakeRun, logger: MakeLogger, stand_in: StandIn
) -> None:
    run = make_run("synced")
    outcome, _ = play(logger(), run, [10, 20])
    command = [Path(sys.executable).with_name("wandb"), "sync", str(run[1] / outcome["directory"])]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    stored = stand_in.runs[outcome["id"]]
    assert stored.numbers("train/loss") == {10: 4.9, 20: 4.8}
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


def children_of(process_id: int) -> list[psutil.Process]:
    children = psutil.Process(process_id).children(recursive=True)
    return [child for child in children if "src.training.sinks.wandb_mirror" in child.cmdline()]


PARENT = """
import sys, time
from pathlib import Path
from src.record import Record
from src.settings import compose
from src.training.events import Logged, Started
from src.training.sinks import open_sinks
folder = Path(sys.argv[1])
sinks = open_sinks(compose([f"logger.mode={sys.argv[2]}"]), folder, 1)
for event in [Started(0, 100, 1), *(Logged(step, {"train/loss": step / 10}) for step in range(1, 51))]:
    for sink in sinks:
        sink.write(event)
print("logged", flush=True)
time.sleep(60)
"""


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


def test_without_a_key_and_with_closed_standard_input_the_run_is_kept_offline(
    make_run: MakeRun, stand_in: StandIn, tmp_path: Path
) -> None:
    _, folder = make_run("no key")
    script = PARENT.replace("time.sleep(60)", "from dataclasses import replace\n" + NO_KEY_ENDING)
    environment = {**os.environ, "HOME": str(tmp_path)}
    del environment["WANDB_API_KEY"]
    command = f'exec \'{sys.executable}\' -c "$0" "$1" online <&-'
    done = subprocess.run(
        ["bash", "-c", command, script, str(folder)], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert (outcome["state"], outcome["rows"]) == ("offline", 50)
    assert "api_key" in outcome["reason"] or "API key" in outcome["reason"]
    assert [path.name for path in folder.glob("wandb/run-*")] == []


NO_KEY_ENDING = """
import json
from src.training.events import Ended
for sink in sinks:
    sink.write(Ended(replace(Record.read(folder), status="finished"), folder))
    sink.close()
print(json.dumps(sinks[-1].outcome))
"""


def test_without_wandb_training_goes_on_with_one_clear_warning(
    make_run: MakeRun, logger: MakeLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wandb_sink, "find_spec", lambda name: None)
    monkeypatch.setattr(wandb_sink, "take_process", lambda: pytest.fail("a process was started"))
    outcome, said = play(logger(), make_run(), [10])
    assert outcome["state"] == "absent"
    assert len(said) == 1
    assert "wandb is not installed" in said[0]


def test_the_setting_decides_and_not_the_variable(
    make_run: MakeRun, logger: MakeLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    outcome, said = play(logger(), make_run(), [10])
    assert outcome["state"] == "offline"
    assert said[0] == "W&B: logger.mode=offline decides; WANDB_MODE=online is not read"


def test_the_child_gets_the_address_and_the_key_but_no_foreign_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_MODE", "WANDB_RESUME", "WANDB_RUN_ID", "WANDB_SERVICE"):
        monkeypatch.setenv(name, "foreign")
    environment = wandb_sink.child_environment()
    assert "foreign" not in environment.values()
    assert environment["WANDB_BASE_URL"] == os.environ["WANDB_BASE_URL"]
    assert environment["WANDB_API_KEY"] == os.environ["WANDB_API_KEY"]
    monkeypatch.setenv("WANDB_SWEEP_ID", "a sweep")  # the run id is the agent's then
    assert wandb_sink.child_environment()["WANDB_RUN_ID"] == "foreign"


def test_disabled_means_no_sink_no_process_and_no_folder(config: Config, make_run: MakeRun) -> None:
    _, folder = make_run()
    disabled = config.model_copy(update={"logger": config.logger.model_copy(update={"mode": "disabled"})})
    sinks = open_sinks(disabled, folder, 1)
    assert [type(sink).__name__ for sink in sinks] == ["JsonlSink", "ConsoleSink"]
    for sink in sinks:
        sink.close()
    assert sorted(path.name for path in folder.iterdir()) == [METRICS, "record.json"]


def test_training_never_imports_wandb_and_the_child_never_imports_torch() -> None:
    code = """
import sys
from src.training.sinks import console, jsonl, wandb_mirror, wandb_sink
print(*{"wandb", "torch", "hydra", "pandas"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
