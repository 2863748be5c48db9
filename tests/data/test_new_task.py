"""A new task is one class: registered here alone, it is configured, trained, evaluated, recorded and exported."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pytest
from jaxtyping import Int64, UInt64

from src.config import Config, setting_names, settings_of_kind
from src.data.tasks import TASKS
from src.data.tasks.task import Task, below
from src.errors import ConfigError
from src.export.read import read_group
from src.export.write import write_export
from src.io_spec import TokenSpec
from src.section import Positive
from src.training.plan import plan_run
from src.training.run import run
from src.training.sinks.jsonl import JsonlSink
from src.training.stop import StopFlag

SMALL = (
    "training=smoke",
    "context_length=8",
    "logger=disabled",
    "sample.tokens=0",
    "training.max_steps=4",
    "measurement.repeats=1",
)


class Clock(Task):
    """Hours of the day; each asks for the one that is `hours_later` ahead."""

    name: Literal["clock"] = "clock"
    hours_later: Positive

    @property
    def io_spec(self) -> TokenSpec:
        return TokenSpec(24)

    def words(self, length: int) -> int:
        return length

    def examples(
        self, words: UInt64[np.ndarray, "B W"], length: int
    ) -> tuple[Int64[np.ndarray, "B T"], Int64[np.ndarray, "B T"]]:
        hours = below(words, 24)
        return hours, (hours + self.hours_later) % 24


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "clock", Clock)


@pytest.fixture
def of(config: Callable[..., Config], tmp_path: Path) -> Callable[..., Config]:
    """A small run of the task, with these changes of its settings."""
    values = config(*SMALL).model_dump() | {"runs_dir": str(tmp_path / "runs")}
    data = {"name": "clock", "hours_later": 5, "train_examples": None, "test_examples": 20}
    return lambda **changes: Config.of(values | {"data": data | changes})


def test_its_settings_are_known_and_its_mistakes_named(of: Callable[..., Config]) -> None:
    assert "data.hours_later" in set(setting_names())
    assert settings_of_kind("data", "clock") == ["train_examples", "test_examples", "name", "hours_later"]
    assert of(hours_later=7).identity["data"]["hours_later"] == 7
    for changes, message in (
        ({"hours_later": 0}, "data.hours_later=0: it should be greater than or equal to 1"),
        ({"stride": 3}, "data.stride is no setting of data=clock; leave it out, or choose another data"),
        ({"hours_latr": 3}, "unknown setting 'data.hours_latr'; did you mean 'data.hours_later'?"),
        ({"name": "clok"}, "there is no such kind; choose one of shakespeare, "),
        ({"name": "copy"}, "data.hours_later is no setting of data=copy"),
    ):
        with pytest.raises(ConfigError) as error:
            of(**changes)
        assert message in str(error.value)


def test_it_trains_and_is_evaluated_recorded_and_exported(of: Callable[..., Config], tmp_path: Path) -> None:
    result = run(plan_run(of(), tmp_path), lambda c, folder, segment: [JsonlSink(folder, segment)], StopFlag())
    record = result.record
    assert record.status == "finished", record.error
    assert record.run_id.startswith("nano-clock-")
    assert {"val/loss", "val/accuracy"} <= set(record.summary)
    assert record.summary["val/loss_optimum"] == 0
    assert record.data["source"] == f"{__name__}, version 1"

    write_export(read_group(result.folder.parent), tmp_path / "export")
    row = pd.read_parquet(tmp_path / "export" / "runs.parquet").iloc[0]
    assert (row["run_id"], row["config.data.name"], row["config.data.hours_later"]) == (record.run_id, "clock", 5)
