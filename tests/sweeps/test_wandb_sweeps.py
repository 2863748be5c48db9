"""A point of a W&B sweep, started as its agent starts it, against a stand-in server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from src import ROOT
from tests.sweeps.conftest import records
from tests.training.conftest import TEXT, TINY
from tests.training.sinks.conftest import StandIn, stand_in  # noqa: F401


def agent_s_command(path: Path, values: dict[str, Any]) -> list[str]:
    """What wandb's agent makes of the file's command for these values; the interpreter is this one."""
    from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

    given = create_sweep_command_args({"args": {name: {"value": value} for name, value in values.items()}})
    given |= {"env": ["/usr/bin/env"], "interpreter": [sys.executable]}
    words: list[str] = []
    for word in create_sweep_command(yaml.safe_load(path.read_text(encoding="utf-8"))["command"]):
        name = word[2:-1] if word.startswith("${") else ""
        words += given[name] if name else [word]
    return words


def test_an_agent_s_run_trains_what_the_server_asked_for_and_says_so_to_it(
    tmp_path: Path,
    stand_in: StandIn,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WANDB_SWEEP_ID", "a1b2c3")
    monkeypatch.setenv("WANDB_RUN_ID", "point-1")
    monkeypatch.setenv("WANDB_PROJECT", "headcount")
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    values = {"heads": 8, "seed": 3, "training.learning_rate": 0.002, "logger.notes": "a b"}
    command = agent_s_command(ROOT / "sweeps" / "wandb" / "head_count.yaml", values)
    tiny = [word for word in TINY if word.partition("=")[0] not in {*values, "logger"}]
    done = subprocess.run(
        [*command, *tiny, "data.path=text.txt", "kv_heads=null", "model.d_model=32"],
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (record,) = records(tmp_path / "runs" / "head_count").values()
    assert (record.geometry["heads"], record.config["seed"]) == (8, 3)
    assert record.config["training"]["learning_rate"] == 0.002
    assert record.config["logger"]["notes"] == "a b"
    run = stand_in.runs["point-1"]
    assert run.config["heads"] == 8
    assert run.fields["groupName"] == "head_count"
    assert {"heads=8", "kv_heads=8"} <= set(run.fields["tags"])
    assert run.summary["val/loss"] == pytest.approx(record.summary["val/loss"])
    assert run.exit_code == 0
