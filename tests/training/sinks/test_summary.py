import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from src.metrics import MISSING
from src.record import SAMPLE, Record, Status
from src.training.sinks.console import print_ending, summary_table

MakeRun = Callable[..., tuple[Record, Path]]


def printed(record: Record, folder: Path) -> str:
    file = io.StringIO()
    print_ending(Console(file=file, width=120), record, folder)
    return file.getvalue()


def rows(record: Record, folder: Path) -> dict[str, tuple[str, str]]:
    labels, values, beside = ([str(cell) for cell in column.cells] for column in summary_table(record, folder).columns)
    return {label: (value, note) for label, value, note in zip(labels, values, beside, strict=True)}


def test_the_table_shows_each_number_in_the_unit_that_people_read(make_run: MakeRun, summary: dict) -> None:
    table = rows(*make_run(status="finished", summary=summary))
    assert table["val loss"][0] == "1.8812"
    assert table["perplexity"][0] == "6.56"
    assert table["bits a token"][0] == "2.7141"
    assert table["best val loss"] == ("1.8712", "at step 1,500")
    assert table["training"][0] == "18,300 tokens/s"
    assert table["prefill"][0] == "51,234 tokens/s"
    assert table["decode"] == ("3.1 ms/token", "318 tokens/s")
    assert table["parameters"][0] == "1,234,567"


def test_the_formula_beside_the_cache_gives_the_bytes_that_are_shown(make_run: MakeRun, summary: dict) -> None:
    table = rows(*make_run(status="finished", summary=summary))
    assert table["KV cache"] == ("64 KiB", "= 2 x 2 kv-heads x 16 wide x 4 layers x 64 tokens x 4 bytes")
    assert summary["cache/bytes"] == 2 * 2 * 16 * 4 * 64 * 4


def test_no_formula_stands_beside_bytes_that_it_does_not_give(make_run: MakeRun, summary: dict) -> None:
    table = rows(*make_run(status="finished", summary=summary | {"cache/bytes": 65537}))
    assert table["KV cache"][1] == ""


def test_a_missing_number_is_a_dash_and_never_zero(make_run: MakeRun, summary: dict) -> None:
    assert rows(*make_run("measured-not", status="finished", summary=summary))["peak memory"][0] == MISSING
    table = rows(*make_run("failed-early", status="failed", geometry={}))
    assert {value for value, _ in table.values()} == {MISSING}


def test_accuracy_is_shown_where_the_task_has_answers(make_run: MakeRun, summary: dict) -> None:
    assert "val accuracy" not in rows(*make_run("text", status="finished", summary=summary))
    table = rows(*make_run("task", status="finished", summary=summary | {"val/accuracy": 0.75}))
    assert table["val accuracy"][0] == "0.7500"


def test_a_finished_run_names_the_command_that_samples_from_it(make_run: MakeRun, summary: dict) -> None:
    record, folder = make_run("run with blanks", status="finished", summary=summary)
    (folder / SAMPLE).write_text("ROMEO: [bold]what light[/bold]", encoding="utf-8")
    text = printed(record, folder)
    assert f"python -m src.sample '{folder}' --prompt ROMEO:" in text
    assert "ROMEO: [bold]what light[/bold]" in text


def test_paths_below_the_working_folder_are_shown_from_there(
    make_run: MakeRun, summary: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "python -m src.sample runs/single/one --prompt" in printed(
        *make_run("one", status="finished", summary=summary)
    )


@pytest.mark.parametrize("status", ["preempted", "interrupted"])
def test_a_run_that_was_stopped_says_that_the_same_command_goes_on(make_run: MakeRun, status: Status) -> None:
    assert "the same command again" in printed(*make_run(status=status))


@pytest.mark.parametrize("status", ["failed", "oom", "diverged"])
def test_a_run_that_failed_says_why_and_where_the_traceback_is(make_run: MakeRun, status: Status) -> None:
    error = {"type": "RuntimeError", "message": "no room [for] this", "traceback": "..."}
    record, folder = make_run(status=status, error=error)
    text = printed(record, folder)
    assert "RuntimeError: no room [for] this" in text
    assert str(folder / "record.json") in text
    assert "src.sample" not in text
