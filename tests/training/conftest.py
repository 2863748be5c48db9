"""Whole runs, small enough for a test: a one-layer model on a page of text."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from src.config import Config, TextConfig
from src.data.corpus import Corpus
from src.record import Record, read_rows
from src.training.checkpoint import load_checkpoint
from src.training.events import Event, Sink
from src.training.plan import Result, RunPlan, plan_run
from src.training.run import run
from src.training.runtime import Runtime, choose_runtime
from src.training.sinks.jsonl import JsonlSink
from src.training.stop import StopFlag
from tests.conftest import compose_once

TEXT = "".join(
    f"line {n}: the heads attend, the keys are shared, and {n * 7919 % 1000} is a number.\n" for n in range(120)
)
TINY = (
    "data=text_file",
    "logger=disabled",
    "heads=4",
    "kv_heads=2",
    "context_length=16",
    "model.d_model=16",
    "model.layers=2",
    "training.max_steps=12",
    "training.batch_size=4",
    "training.warmup_steps=3",
    "training.eval_interval=5",
    "training.checkpoint_interval=4",
    "training.log_interval=2",
    "training.threads=1",
    "sample.tokens=8",
    "measurement.repeats=1",
)

Tiny = Callable[..., Config]
RunIt = Callable[..., Result]
Trained = Callable[..., Result]


class Recorder:
    """A sink that keeps every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, event: Event) -> None:
        self.events.append(event)

    def close(self) -> None: ...


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    """A complete configuration of a run of a second, in tmp_path; overrides as on the command line."""
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    return lambda *overrides: tiny_in(tmp_path, *overrides)


def tiny_in(folder: Path, *overrides: str) -> Config:
    """Composed once for all tests, as that takes longer than the run; then put into the folder."""
    config = compose_once((*TINY, "data.path=text.txt", *overrides))
    places: dict[str, Any] = {"runs_dir": str(folder / config.runs_dir)}
    if isinstance(config.data, TextConfig):
        places["data"] = config.data.model_copy(update={"path": str(folder / (config.data.path or ""))})
    return config.model_copy(update=places)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Finished runs that tests only read, each trained once: trained("model.dropout=0.1")."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")

    @cache
    def of(*overrides: str) -> Result:
        plan = plan_run(tiny_in(folder, *overrides), folder)
        return run(plan, lambda config, folder, segment: [JsonlSink(folder, segment)], StopFlag())

    return of


@pytest.fixture
def run_it(tmp_path: Path) -> RunIt:
    """Runs a configuration with the metrics file and any further sinks."""

    def go(config: Config, *sinks: Sink, stop: StopFlag | None = None) -> Result:
        def open_sinks(config: Config, folder: Path, segment: int) -> Sequence[Sink]:
            return [JsonlSink(folder, segment), *sinks]

        return run(plan_run(config, tmp_path), open_sinks, stop or StopFlag())

    return go


@pytest.fixture(autouse=True)
def quiet_log() -> Iterator[None]:
    """Each run takes its log file away again."""
    before = list(logging.getLogger("headcount").handlers)
    yield
    assert logging.getLogger("headcount").handlers == before, "a run left its log file open"


def logged(folder: Path) -> dict[int, dict[str, float]]:
    """The rows of a run by step, times and speeds left out; fails where a step stands twice."""
    rows: dict[int, dict[str, float]] = {}
    for row in read_rows(folder):
        assert row["step"] not in rows, f"step {row['step']} is logged twice"
        rows[row["step"]] = {
            name: value
            for name, value in row.items()
            if name not in ("step", "segment", "time", "train/tokens_per_second")
        }
    return rows


def runtime_of(plan: RunPlan) -> Runtime:
    return choose_runtime(plan.config, plan.geometry, plan.data.io_spec)


def text_of(plan: RunPlan) -> Corpus:
    assert isinstance(plan.data, Corpus)
    return plan.data


def weights(folder: Path) -> dict[str, torch.Tensor]:
    content = load_checkpoint(folder)
    assert content is not None
    return content["model"]


def assert_same_run(one: Path, other: Path) -> None:
    assert logged(one) == logged(other)
    for name, tensor in weights(one).items():
        assert torch.equal(tensor, weights(other)[name]), name
    first, second = Record.read(one).summary, Record.read(other).summary
    exact = [name for name in first if name.startswith(("val/", "cost/", "cache/")) or name == "train/tokens"]
    assert len(exact) > 6
    assert {n: first[n] for n in exact} == {n: second[n] for n in exact}
    samples = [folder / "sample.txt" for folder in (one, other) if (folder / "sample.txt").exists()]
    assert len(samples) in (0, 2)
    assert len({path.read_text() for path in samples}) <= 1
