"""Real signals to a real process: it saves, says how it ended, and goes on later."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from src.record import Record
from src.training.checkpoint import load_checkpoint
from src.training.stop import StopFlag
from tests.processes import Forked, run_module
from tests.training.conftest import TEXT, TINY, logged

LONG = ("training.max_steps=200000", "training.log_interval=1", "training.eval_interval=1000000", "sample.tokens=0")


@contextmanager
def started(tmp_path: Path, *overrides: str) -> Iterator[Forked]:
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    environment = {**os.environ, "TERM": "dumb"}
    child = Forked(run_module, "src.train", *TINY, "data.path=text.txt", *overrides, cwd=tmp_path, env=environment)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def folder_once(tmp_path: Path, file: str, more_than: int, child: Forked) -> Path:
    """The run's folder once its file has more lines than so many."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert child.poll() is None, child.output
        found = list((tmp_path / "runs" / "single").glob(f"*/{file}"))
        if found and found[0].read_bytes().count(b"\n") > more_than:
            return found[0].parent
        time.sleep(0.02)
    raise AssertionError(f"no {file} in time")


@pytest.mark.parametrize(
    ("number", "status", "exit_code"),
    [(signal.SIGTERM, "preempted", 143), (signal.SIGINT, "interrupted", 130), (signal.SIGUSR1, "preempted", 143)],
)
def test_a_signal_saves_and_is_recorded(tmp_path: Path, number: int, status: str, exit_code: int) -> None:
    with started(tmp_path, *LONG) as child:
        folder = folder_once(tmp_path, "metrics.jsonl", 5, child)
        child.send_signal(number)
        assert child.wait(timeout=60) == exit_code, child.output
    record = Record.read(folder)
    assert record.status == status
    content = load_checkpoint(folder)
    assert content is not None
    assert content["state"]["step"] >= max(logged(folder)) > 5
    assert "same command" in child.output, "the next thing to do is said"


def test_a_signal_before_the_first_step_ends_as_preempted_and_can_be_continued(tmp_path: Path) -> None:
    with started(tmp_path, *LONG) as child:
        folder = folder_once(tmp_path, "record.json", 0, child)
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=60) == 143, child.output
    assert Record.read(folder).status == "preempted"


def test_handlers_are_put_back_and_a_second_signal_does_what_it_always_did() -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopFlag() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.signal_number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
