"""metrics.jsonl: one line a logged step, in the file before `write` returns. All that is said of a run is read here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from src.errors import RunError
from src.metrics import check_names
from src.record import METRICS, encode_row, read_rows
from src.training.events import Event, Logged


class JsonlSink:
    """Appends {"step", "segment", "time", metric: value, ...} for each `Logged`; `time` in unix seconds.

    A row is handed to the system whole, so it survives a kill of the process at any later moment. Unlike the
    other sinks this one raises: training that nobody can read afterwards had better stop.
    Raises RunError where the file ends in half a row (`src.record.keep_rows_until` mends it), KeyError for a metric
    that is not declared, ValueError for a step that is not above the last, OSError with the file's name where the
    row cannot be written.
    """

    def __init__(self, folder: Path, segment: int, clock: Callable[[], float] = time.time) -> None:
        self._path = folder / METRICS
        self._segment = segment
        self._clock = clock
        self._last_step = _last_step(folder)
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def write(self, event: Event) -> None:
        if not isinstance(event, Logged):
            return
        check_names(event.row)
        if event.step <= self._last_step:
            raise ValueError(f"step {event.step} after step {self._last_step}: logged steps ascend")
        row = {"step": event.step, "segment": self._segment, "time": self._clock(), **event.row}
        self._append(encode_row(row).encode() + b"\n")
        self._last_step = event.step

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _append(self, line: bytes) -> None:
        before = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
            while written < len(line):  # a nearly full disk takes a part, and says why at the next call
                written += os.write(self._file, line[written:])
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, before)
            raise OSError(error.errno, f"{error.strerror}; the metrics cannot be written", str(self._path)) from error


def _last_step(folder: Path) -> int:
    path = folder / METRICS
    if not path.exists():
        return -1
    if path.stat().st_size and not path.read_bytes().endswith(b"\n"):
        raise RunError(f"{path} ends in half a row; call keep_rows_until before appending to it")
    return max((row["step"] for row in read_rows(folder)), default=-1)
