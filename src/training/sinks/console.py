"""What the one who waits sees: a progress bar on a terminal, plain lines elsewhere, and the ending."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from src.metrics import duration_shown, shown
from src.training.events import Ended, Event, Logged, Phase, Sampled, Started
from src.training.events import Progress as StepDone
from src.training.sinks.summary import never_refuse_a_character, print_ending

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
        self._clock = clock
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
        match event:
            case Started():
                self._pace.start(event)
                self._view.start(self._pace)
            case StepDone():
                self._pace.note_step(event)
                self._view.step(self._pace)
            case Logged():
                self._pace.note_row(event)
                self._view.row(self._pace, event)
            case Phase():
                self._view.phase(event)
            case Sampled():
                self._sample = event.prompt + event.text
            case Ended():
                self._view.close()
                print_ending(self._console, event.record, event.folder, self._sample)


class Pace:
    """Where a run stands, what it last said, and when it may be done."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.step = self.first_step = self.total_steps = 0
        self.segment = 1
        self.latest: dict[str, float | int] = {}
        self._since = 0.0

    def start(self, event: Started) -> None:
        self.step = self.first_step = event.step
        self.total_steps, self.segment = event.total_steps, event.segment
        self._since = self._clock()

    def note_step(self, event: StepDone) -> None:
        self.step = event.step
        self._note({"train/loss": event.loss, "train/tokens_per_second": event.tokens_per_second})

    def note_row(self, event: Logged) -> None:
        self.step = event.step
        self._note(event.row)

    @property
    def steps(self) -> str:
        return f"{self.step:,}/{self.total_steps:,}"

    def numbers(self, val_label: str | None) -> str:
        """The latest losses, the speed and the time left, as far as they are known; no val loss without a label."""
        labels = {"train/loss": "loss", "val/loss": val_label, "train/tokens_per_second": ""}
        known = [
            f"{label} {shown(name, self.latest[name])}".strip()
            for name, label in labels.items()
            if label is not None and name in self.latest
        ]
        seconds_left = self.seconds_left
        if seconds_left is not None:
            known.append(f"{duration_shown(seconds_left)} left")
        return "  ".join(known)

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the remaining steps take at the pace of this segment; None before its first step."""
        done = self.step - self.first_step
        if done <= 0:
            return None
        return (self._clock() - self._since) / done * (self.total_steps - self.step)

    def _note(self, numbers: Mapping[str, float | int | None]) -> None:
        self.latest |= {name: value for name, value in numbers.items() if value is not None}


class Lines:
    """Plain lines, for a pipe, a file, a dumb terminal or CI."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_mark = 0.0

    def start(self, pace: Pace) -> None:
        went_before = f", going on after step {pace.step:,} (segment {pace.segment})" if pace.step else ""
        self._print(f"training {pace.total_steps:,} steps{went_before}")
        self._next_mark = pace.step + pace.total_steps / 10

    def step(self, pace: Pace) -> None:
        pass

    def row(self, pace: Pace, event: Logged) -> None:
        is_evaluated = event.row.get("val/loss") is not None
        if pace.step < self._next_mark and not is_evaluated:
            return
        self._next_mark = pace.step + pace.total_steps / 10
        self._print(f"step {pace.steps}  {pace.numbers('val loss' if is_evaluated else None)}")

    def phase(self, event: Phase) -> None:
        pass

    def close(self) -> None:
        pass

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
        self._training: TaskID | None = None
        self._phase: TaskID | None = None

    def start(self, pace: Pace) -> None:
        self._training = self._progress.add_task("training", total=pace.total_steps, done=pace.steps, numbers="")
        self._progress.start()
        self.step(pace)

    def step(self, pace: Pace) -> None:
        if self._training is None or not self._is_due(pace.step == pace.total_steps):
            return
        self._end_phase()
        self._progress.update(self._training, completed=pace.step, done=pace.steps, numbers=pace.numbers("last val"))
        self._progress.refresh()

    def row(self, pace: Pace, event: Logged) -> None:
        self.step(pace)

    def phase(self, event: Phase) -> None:
        self._progress.start()  # measuring a run that had no step left to train begins here
        if self._phase is None:
            self._phase = self._progress.add_task(event.name, total=event.total, done="", numbers="")
        elif not self._is_due(event.done == event.total):
            return
        self._progress.update(
            self._phase,
            description=event.name,
            total=event.total,
            completed=event.done,
            done=f"{event.done:,}/{event.total:,}",
        )
        self._progress.refresh()

    def close(self) -> None:
        self._end_phase()
        self._progress.stop()

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
