"""What a person sees of a run: a progress bar on a terminal, plain lines elsewhere, and a table at its end."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from src.costs import BYTES, cache_bytes, cache_formula
from src.geometry import Geometry
from src.metrics import duration_shown, shown, unit_of
from src.record import RECORD, SAMPLE, Record
from src.training.events import Ended, Event, Logged, Phase, Sampled, Started
from src.training.events import Progress as StepDone

REFRESH_S = 0.2
"""Seconds between two drawings of the bar: training must not wait for its own picture."""


class ConsoleSink:
    """Shows a run on `console` (default: standard output). Never raises for a terminal that went away.

    A bar where `console` is a terminal that can redraw a line and no CI is at work; otherwise a line for each
    evaluation and about every tenth of the steps.
    """

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console or Console(highlight=False)
        never_refuse_a_character(self._console)
        self._pace = Pace(clock)
        self._view: Bar | Lines = Bar(self._console, clock) if can_redraw(self._console) else Lines(self._console)
        self._sample: str | None = None

    def write(self, event: Event) -> None:
        try:
            self._write(event)
        except (OSError, SystemExit):  # rich leaves a closed pipe by SystemExit
            self._console.quiet = True

    def say(self, line: str) -> None:
        """One line of news from another sink, above the bar."""
        try:
            self._console.print(Text(line), soft_wrap=True)
        except (OSError, SystemExit):
            self._console.quiet = True

    def close(self) -> None:
        self._view.close()

    def _write(self, event: Event) -> None:
        self._pace.note(event)
        match event:
            case Sampled():
                self._sample = event.prompt + event.text
            case Ended():
                self._view.close()
                print_ending(self._console, event.record, event.folder, self._sample)
            case _:
                self._view.show(event, self._pace)


class Pace:
    """Where a run stands, what it last said, and when it may be done."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.step = self.first_step = self.total_steps = 0
        self._latest: dict[str, float | int] = {}
        self._since = 0.0

    def note(self, event: Event) -> None:
        numbers = {}
        match event:
            case Started():
                self.step = self.first_step = event.step
                self.total_steps, self._since = event.total_steps, self._clock()
            case StepDone():
                self.step = event.step
                numbers = {"train/loss": event.loss, "train/tokens_per_second": event.tokens_per_second}
            case Logged():
                self.step, numbers = event.step, event.row
        self._latest |= {name: value for name, value in numbers.items() if value is not None}

    @property
    def steps(self) -> str:
        return f"{self.step:,}/{self.total_steps:,}"

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the remaining steps take at the pace of this segment; None before its first step."""
        done = self.step - self.first_step
        if done <= 0:
            return None
        return (self._clock() - self._since) / done * (self.total_steps - self.step)

    def numbers(self, val_label: str | None) -> str:
        """The latest losses, the speed and the time left, as far as they are known; no val loss without a label."""
        labels = {"train/loss": "loss", "val/loss": val_label, "train/tokens_per_second": ""}
        known = [
            f"{label} {shown(name, self._latest[name])}".strip()
            for name, label in labels.items()
            if label is not None and name in self._latest
        ]
        seconds_left = self.seconds_left
        if seconds_left is not None:
            known.append(f"{duration_shown(seconds_left)} left")
        return "  ".join(known)


class Lines:
    """Plain lines, for a pipe, a file, a dumb terminal or CI."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_mark = 0.0

    def show(self, event: Event, pace: Pace) -> None:
        if isinstance(event, Started):
            goes_on = f", going on after step {pace.step:,} (segment {event.segment})" if pace.step else ""
            self._print(f"training {pace.total_steps:,} steps{goes_on}")
        elif isinstance(event, Logged):
            is_evaluated = event.row.get("val/loss") is not None
            if pace.step < self._next_mark and not is_evaluated:
                return
            self._print(f"step {pace.steps}  {pace.numbers('val loss' if is_evaluated else None)}")
        else:
            return
        self._next_mark = pace.step + pace.total_steps / 10

    def close(self) -> None:
        """Lines need no end."""

    def _print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)


class Bar:
    """A progress bar, redrawn by the events themselves: no thread takes turns with training."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._drawn = -REFRESH_S
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[done]}  {task.fields[numbers]}"),
        )
        self._progress = Progress(*columns, console=console, auto_refresh=False)
        self._training = self._phase = None

    def show(self, event: Event, pace: Pace) -> None:
        if isinstance(event, Phase):
            self._show_phase(event)
            return
        if isinstance(event, Started):
            self._training = self._progress.add_task("training", total=pace.total_steps, done=pace.steps, numbers="")
            self._progress.start()
        if isinstance(event, Started | StepDone | Logged):
            self._show_step(pace)

    def close(self) -> None:
        self._end_phase()
        self._progress.stop()

    def _show_step(self, pace: Pace) -> None:
        if self._training is None or not self._is_due(pace.step == pace.total_steps):
            return
        self._end_phase()
        self._progress.update(self._training, completed=pace.step, done=pace.steps, numbers=pace.numbers("last val"))
        self._progress.refresh()

    def _show_phase(self, event: Phase) -> None:
        self._progress.start()  # measuring a run that had no step left to train begins here
        if self._phase is None:
            self._phase = self._progress.add_task(event.name, total=event.total, done="", numbers="")
        elif not self._is_due(event.done == event.total):
            return
        done = f"{event.done:,}/{event.total:,}"
        self._progress.update(self._phase, description=event.name, total=event.total, completed=event.done, done=done)
        self._progress.refresh()

    def _end_phase(self) -> None:
        if self._phase is not None:
            self._progress.remove_task(self._phase)
            self._phase = None

    def _is_due(self, always: bool) -> bool:
        now = self._clock()
        if now - self._drawn < REFRESH_S and not always:
            return False
        self._drawn = now
        return True


def can_redraw(console: Console) -> bool:
    """Whether a bar can be drawn: a terminal that moves its cursor, and a person before it."""
    return console.is_terminal and not console.is_dumb_terminal and not os.environ.get("CI")


def never_refuse_a_character(console: Console) -> None:
    """Lets a terminal that knows ASCII alone show '?' instead of ending the run with a UnicodeEncodeError."""
    reconfigure = getattr(console.file, "reconfigure", None)
    if reconfigure is not None and not console.encoding.startswith("utf"):
        reconfigure(errors="replace")


LABELS = {
    "val/loss": "val loss",
    "val/perplexity": "perplexity",
    "val/bits_per_token": "bits a token",
    "val/accuracy": "val accuracy",
    "val/loss_best": "best val loss",
    "train/tokens_per_second": "training",
    "decode/prefill_tokens_per_second": "prefill",
    "decode/ms_per_token": "decode",
    "cache/bytes": "KV cache",
    "cost/parameters": "parameters",
    "memory/peak_bytes": "peak memory",
}
"""The rows of the table at the end. One without a number is a dash, or left out where it cannot have one:"""
ONLY_OF_TASKS = {"val/accuracy"}
ONLY_OF_TOKENS = {
    *("val/perplexity", "val/bits_per_token", "decode/prefill_tokens_per_second", "decode/ms_per_token"),
    "cache/bytes",
}
STYLES = {"finished": "green", "skipped": "yellow", "preempted": "yellow", "interrupted": "yellow"}


def print_ending(console: Console, record: Record, folder: Path, sample: str | None = None) -> None:
    """Prints how a run ended: the table, the text sample (else sample.txt), the folder, and the next step."""
    never_refuse_a_character(console)
    console.print(summary_table(record, folder))
    if sample is None and (folder / SAMPLE).exists():
        sample = (folder / SAMPLE).read_text(encoding="utf-8")
    if sample:
        console.print(Text("sample", style="bold"))
        console.print(Text(sample.rstrip("\n") + "\n"), soft_wrap=True)
    for line in next_steps(record, folder):
        console.print(Text(line), soft_wrap=True)


def summary_table(record: Record, folder: Path) -> Table:
    """The numbers of a run by name, value and what belongs beside it; a missing one is a dash.

    What a model of vectors does not have, such as a cache, has no row.
    """
    status = Text(record.status, style=STYLES.get(record.status, "red"))
    table = Table(
        title=Text.assemble(folder.name, "  ", status), title_justify="left", show_header=False, box=box.SIMPLE
    )
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    left_out = ONLY_OF_TASKS | (ONLY_OF_TOKENS if _reads_vectors(record) else set())
    for name, label in LABELS.items():
        value = record.summary.get(name)
        if value is not None or name not in left_out:
            table.add_row(label, shown(name, value), Text(_beside(name, record)))
    return table


def next_steps(record: Record, folder: Path) -> Iterator[str]:
    """The run's folder and the command to type next, or where to look after a failure."""
    where = path_to_type(folder)
    yield f"run      {where}"
    if record.status == "finished" and _reads_vectors(record):
        yield f"next     python -m src.train --multirun experiment={record.config['data']['name']} heads=1,4 seed=0,1"
    elif record.status == "finished":
        prompt = shlex.quote(str(record.config.get("sample", {}).get("prompt") or "ROMEO:"))
        yield f"next     python -m src.sample {where} --prompt {prompt}"
    elif record.status in ("preempted", "interrupted"):
        yield "next     the same command again: it goes on from the checkpoint"
    elif record.error is not None:
        yield f"error    {record.error['type']}: {record.error['message']}"
        yield f"         traceback: {path_to_type(folder / RECORD)}, under error.traceback"


def path_to_type(path: Path) -> str:
    """A path as one types it from here: short where it lies below, quoted where a shell needs it."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _beside(name: str, record: Record) -> str:
    summary = record.summary
    if name == "val/loss":
        unit = unit_of(name, of_vectors=_reads_vectors(record)).replace("/", " a ")
        return "; ".join([f"{unit}, whole validation split", *_landmarks(record)])
    if name == "val/loss_best" and summary.get("val/loss_best_step") is not None:
        return f"at step {shown('val/loss_best_step', summary['val/loss_best_step'])}"
    if name == "decode/ms_per_token":
        return shown("decode/tokens_per_second", summary.get("decode/tokens_per_second"))
    if name == "cache/bytes":
        return _formula(record)
    return ""


def _landmarks(record: Record) -> Iterator[str]:
    """What theory says of a task's loss: chance 2.77, one head 0.52, solved 0."""
    yield from (f"{who}: {loss:.3g}" for who, loss in record.data.get("landmarks", {}).items())


def _reads_vectors(record: Record) -> bool:
    return "features" in record.data.get("ends", {})


def _formula(record: Record) -> str:
    """The cache bytes written out, from the geometry and the dtype that give exactly these bytes."""
    names = [field.name for field in fields(Geometry)]
    if not set(names) <= record.geometry.keys():
        return ""  # a record of an invalid or skipped job has no geometry
    geometry = Geometry(**{name: record.geometry[name] for name in names})
    for dtype in BYTES:
        if cache_bytes(geometry, 1, geometry.context_length, dtype) == record.summary.get("cache/bytes"):
            return f"= {cache_formula(geometry, dtype)}"
    return ""
