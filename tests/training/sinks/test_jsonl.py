import errno
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from src import ROOT
from src.errors import RunError
from src.record import METRICS, keep_rows_until, read_rows
from src.training.events import Logged, Progress
from src.training.sinks.jsonl import JsonlSink


def write_steps(folder: Path, steps: range, segment: int = 1) -> None:
    sink = JsonlSink(folder, segment, clock=lambda: 16_000.0)
    for step in steps:
        sink.write(Logged(step, {"train/loss": 2 + step / 3}))
    sink.close()


def test_a_row_is_in_the_file_as_soon_as_it_is_written(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path, segment=2, clock=lambda: 16_000.0)
    sink.write(Progress(1, 10, 2.5, None))
    sink.write(Logged(1, {"train/loss": 2.5, "val/loss": None}))
    line = (tmp_path / METRICS).read_text(encoding="utf-8")
    sink.close()
    assert json.loads(line) == {"step": 1, "segment": 2, "time": 16_000.0, "train/loss": 2.5, "val/loss": None}


def test_a_number_that_is_not_finite_comes_back_as_a_number(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path, segment=1)
    sink.write(Logged(1, {"train/loss": math.nan, "train/grad_norm": math.inf}))
    sink.close()
    (row,) = read_rows(tmp_path)
    assert math.isnan(row["train/loss"])
    assert row["train/grad_norm"] == math.inf


def test_a_metric_that_is_not_declared_is_refused_and_leaves_no_row(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path, segment=1)
    with pytest.raises(KeyError, match=r"val/losss.*did you mean 'val/loss'"):
        sink.write(Logged(1, {"val/losss": 1.0}))
    sink.close()
    assert list(read_rows(tmp_path)) == []


@pytest.mark.parametrize("step", [4, 5])
def test_a_step_that_is_not_above_the_last_one_is_refused_also_by_the_next_segment(tmp_path: Path, step: int) -> None:
    write_steps(tmp_path, range(1, 6))
    sink = JsonlSink(tmp_path, segment=2)
    with pytest.raises(ValueError, match=f"step {step} after step 5"):
        sink.write(Logged(step, {"train/loss": 1.0}))
    sink.write(Logged(6, {"train/loss": 1.0}))
    sink.close()
    assert [row["step"] for row in read_rows(tmp_path)] == [1, 2, 3, 4, 5, 6]


def test_after_a_resume_each_step_stands_once_and_kept_rows_are_unchanged(tmp_path: Path) -> None:
    write_steps(tmp_path, range(1, 8))
    kept = (tmp_path / METRICS).read_bytes().splitlines()[:5]
    with (tmp_path / METRICS).open("ab") as file:
        file.write(b'{"step": 8, "train/lo')
    keep_rows_until(tmp_path, step=5)
    assert (tmp_path / METRICS).read_bytes().splitlines() == kept
    write_steps(tmp_path, range(6, 11), segment=2)
    rows = list(read_rows(tmp_path))
    assert [row["step"] for row in rows] == list(range(1, 11))
    assert [row["segment"] for row in rows] == [1] * 5 + [2] * 5
    assert [path.name for path in tmp_path.iterdir()] == [METRICS]


def test_keeping_rows_of_a_run_that_logged_none_makes_no_file(tmp_path: Path) -> None:
    keep_rows_until(tmp_path, step=5)
    assert list(tmp_path.iterdir()) == []


def test_half_a_row_is_never_appended_to(tmp_path: Path) -> None:
    (tmp_path / METRICS).write_bytes(b'{"step": 1, "train/loss": 2.0}')  # only the line's end is missing
    with pytest.raises(RunError, match=r"metrics\.jsonl ends in half a row"):
        JsonlSink(tmp_path, segment=2)
    keep_rows_until(tmp_path, step=1)
    write_steps(tmp_path, range(2, 3), segment=2)
    assert [row["step"] for row in read_rows(tmp_path)] == [1, 2]


def test_a_full_disk_is_an_error_that_names_the_file_and_leaves_whole_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_steps(tmp_path, range(1, 4))
    sink = JsonlSink(tmp_path, segment=1)
    real_write = os.write
    room = [9]  # bytes that the disk still takes

    def nearly_full(file: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = real_write(file, data[: room[0]])
        room[0] = 0
        return taken

    monkeypatch.setattr(os, "write", nearly_full)
    with pytest.raises(OSError, match=r"No space left on device.*metrics\.jsonl") as caught:
        sink.write(Logged(4, {"train/loss": 1.0}))
    monkeypatch.undo()
    sink.close()
    assert caught.value.errno == errno.ENOSPC
    assert (tmp_path / METRICS).read_bytes().endswith(b"}\n")
    assert [row["step"] for row in read_rows(tmp_path)] == [1, 2, 3]


WRITER = """
import sys
from pathlib import Path
from src.training.events import Logged
from src.training.sinks.jsonl import JsonlSink
sink = JsonlSink(Path(sys.argv[1]), 1)
for step in range(1, 1_000_000):
    sink.write(Logged(step, {"train/loss": 2.0}))
    if step == 200:
        print("written", flush=True)
"""


def test_rows_are_readable_after_a_kill(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT)
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        writer.send_signal(signal.SIGKILL)
    steps = [row["step"] for row in read_rows(tmp_path)]
    assert len(steps) >= 200
    assert steps == list(range(1, len(steps) + 1))
