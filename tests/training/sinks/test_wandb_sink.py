"""Real wandb, in its child process; one child serves the tests of this file, as it does the runs of a sweep."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from src import ROOT
from src.config import Config
from src.record import METRICS, SAMPLE, keep_rows_until
from src.training.events import Ended
from src.training.sinks import open_sinks, wandb_sink
from src.training.sinks.wandb_sink import WandbSink
from tests.training.sinks.conftest import MakeRun, StandIn
from tests.training.sinks.wandb_play import PARENT, MakeLogger, inspect, play

pytestmark = pytest.mark.usefixtures("one_child")


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
