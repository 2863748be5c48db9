import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from src import ROOT
from src.record import Record
from src.training.events import Ended, Event, Logged, Phase, Progress, Sampled, Started
from src.training.sinks.console import ConsoleSink, can_redraw

MakeRun = Callable[..., tuple[Record, Path]]


@pytest.fixture(autouse=True)
def _a_person_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def ticking() -> Callable[[], float]:
    """A clock that starts late and moves one second a reading."""
    times: Iterator[int] = iter(range(16_000, 100_000))
    return lambda: float(next(times))


def training(first: int, last: int, total: int, segment: int = 1) -> Iterator[Event]:
    yield Started(first, total, segment)
    for step in range(first + 1, last + 1):
        yield Progress(step, total, 3.0, 18_300.0)
        row = {"train/loss": 3.0 - step / 100}
        if step % 50 == 0:
            yield Phase("evaluating", 0, 2)
            yield Phase("evaluating", 2, 2)
            row |= {"val/loss": 2.5 - step / 100}
        yield Logged(step, row)


def show(events: Iterator[Event], **terminal: object) -> str:
    file = io.StringIO()
    sink = ConsoleSink(Console(file=file, width=120, **terminal), clock=ticking())  # type: ignore[arg-type]
    for event in events:
        sink.write(event)
    sink.close()
    return file.getvalue()


def test_away_from_a_terminal_each_line_is_plain_and_whole() -> None:
    text = show(training(0, 100, 100))
    assert "\x1b" not in text
    assert "\r" not in text
    lines = text.splitlines()
    assert lines[0] == "training 100 steps"
    assert [line.split()[1] for line in lines[1:]] == [f"{step}/100" for step in range(10, 101, 10)]
    assert "loss 2.9000  18,300 tokens/s" in lines[1]
    assert lines[1].endswith(" left")


def test_a_val_loss_stands_only_on_the_line_of_its_own_step() -> None:
    lines = show(training(0, 100, 100)).splitlines()
    assert [line.split()[1] for line in lines if "val loss" in line] == ["50/100", "100/100"]
    assert any("val loss 2.0000" in line for line in lines)


def test_a_run_that_goes_on_says_after_which_step() -> None:
    text = show(training(1_200, 1_300, 2_000, segment=3))
    assert text.splitlines()[0] == "training 2,000 steps, going on after step 1,200 (segment 3)"


def test_the_time_left_is_that_of_the_steps_left_at_the_pace_of_this_segment() -> None:
    def events() -> Iterator[Event]:
        yield Started(100, 300, 2)  # read at 16,000 s
        yield Logged(120, {"val/loss": 2.0})  # 16,001 s: 20 steps a second; 180 left

    assert show(events()).splitlines()[-1].endswith("0:09 left")


def test_a_terminal_gets_a_bar_with_the_step_the_losses_and_the_speed() -> None:
    text = show(training(0, 100, 100), force_terminal=True)
    assert "\x1b[2K" in text  # the line is redrawn
    assert "100/100" in text
    assert "evaluating" in text
    assert "last val 2.0000" in text
    assert "18,300 tokens/s" in text


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("CI", "true")])
def test_a_dumb_terminal_and_ci_get_plain_lines(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    assert can_redraw(Console(force_terminal=True))
    monkeypatch.setenv(name, value)
    text = show(training(0, 100, 100), force_terminal=True, color_system=None)
    assert "\x1b" not in text
    assert "step 50/100" in text


def test_the_ending_shows_the_table_the_sample_and_the_next_command(make_run: MakeRun, summary: dict) -> None:
    record, folder = make_run(status="finished", summary=summary)

    def events() -> Iterator[Event]:
        yield from training(0, 100, 100)
        yield Sampled(100, "ROMEO:", "\nWhat light [bold]through[/bold] yonder")
        yield Ended(record, folder)

    for terminal in ({}, {"force_terminal": True, "color_system": None}):
        text = show(events(), **terminal)
        assert "64 KiB" in text
        assert "ROMEO:\nWhat light [bold]through[/bold] yonder\n" in text
        assert f"python -m src.sample {folder} --prompt ROMEO:" in text


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_terminal_that_knows_only_ascii_does_not_end_the_run(
    make_run: MakeRun, summary: dict, is_terminal: bool
) -> None:
    record, folder = make_run(status="finished", summary=summary)
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii"), width=120, force_terminal=is_terminal)
    sink = ConsoleSink(console, clock=ticking())
    for event in training(0, 100, 100):
        sink.write(event)
    sink.say("a line with a λ in it")
    sink.write(Sampled(100, "ROMEO:", "\nλ"))
    sink.write(Ended(record, folder))
    sink.close()
    console.file.flush()
    assert b"a line with a ? in it" in raw.getvalue()
    assert b"64 KiB" in raw.getvalue()


TALKER = """
from pathlib import Path
from src import ROOT
from src.record import Record
from src.training.events import Ended, Logged, Started
from src.training.sinks.console import ConsoleSink
import sys
sys.stdin.readline()
folder = Path(sys.argv[1])
sink = ConsoleSink()
sink.write(Started(0, 20, 1))
for step in range(1, 21):
    sink.write(Logged(step, {"val/loss": 2.0}))
sink.say("nobody hears this")
sink.write(Ended(Record.read(folder), folder))
sink.close()
"""


def test_a_pipe_whose_reader_left_does_not_end_the_run(make_run: MakeRun, summary: dict) -> None:
    _, folder = make_run(status="finished", summary=summary)
    command = [sys.executable, "-c", TALKER, str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as talker:
        assert talker.stdout is not None
        talker.stdout.close()  # as `| head -1` does
        _, complaints = talker.communicate("go\n", timeout=60)
    assert (talker.returncode, complaints) == (0, "")
