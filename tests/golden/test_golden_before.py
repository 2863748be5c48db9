"""Runs and sweeps that an older headcount left behind are read, sampled, exported and finished as they were."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.golden.commands import BEFORE, BEGUN, COMMANDS, HERE, TEXT, command, record_of, rows_of, tables_of
from tests.golden.numbers import is_steady

GROUPS = sorted(path.name for path in BEFORE.iterdir())
FINISHED, STOPPED = "nano-text-file-h2-c16-s0-f4164d8ff249", "nano-text-file-h4-c16-s0-855ecb0f8115"
MHA, GQA, MQA = (
    *("nano-text-file-h4-c16-s0-d812fb66d8e5", "nano-text-file-h4-kv2-c16-s0-bd10f3b8161e"),
    "nano-text-file-h4-kv1-c16-s0-0853726b1a3d",
)
MLA, VECTORS = "nano-text-file-h4-mla12r2-c16-s0-6068006e575b", "farthest-point-farthest-point-h2-c8-s0-88053b33f3e1"
SAMPLES = {
    ("sharing", GQA): "the heads7le\n ut  i eaar:t 2d4tn,hh0 nshsed :htr9\n",
    ("single", MLA): "the heads7le\niut b: eaar:t 2ddtn,hh03nshsed :htr9\n",
}
MUST_STAY = (
    "tests/golden/before holds runs that users have on their disks: they stay readable, with the same names and "
    "numbers. This changes only with a new schema_version, or a new checkpoint format, that says what it refuses"
)
TABLES_MAY_CHANGE = (
    "the export of runs that are not new came out otherwise. It may change only in a commit that means to change the "
    "export (a column renamed, merged or dropped; further columns are no change): then put the new files into "
    "tests/golden/export, and say in CHANGELOG which columns moved and why; values of columns that stay never change"
)
ARROW = {"integer": "int64", "number": "double", "flag": "bool", "text": "string"}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder in which the older headcount ran."""
    shutil.copytree(BEFORE, tmp_path / "runs")
    (tmp_path / TEXT.name).write_bytes(TEXT.read_bytes())
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    """The files of all runs; not the plan, which a command renews, nor locks."""
    return {str(p): p.read_bytes() for p in sorted(folder.glob("*/*")) if p.is_file() and not p.name.startswith(".")}


def test_a_sweep_that_was_finished_has_nothing_left_to_run(here: Path) -> None:
    group = here / "runs" / "sharing"
    before = contents(group)
    planned = command("src.train", *COMMANDS["sharing"], "sweep.dry_run=true", here=here)
    assert planned.code == 0, planned.text
    assert "3 finished\n" in planned.text, f"{planned.text}\n{MUST_STAY}"
    assert "to run" not in planned.text, f"{planned.text}\n{MUST_STAY}"
    ended = command("src.train", *COMMANDS["sharing"], here=here)
    assert ended.code == 0, ended.text
    assert "3 jobs: 3 finished" in ended.text, ended.text
    assert contents(group) == before, MUST_STAY
    (plan,) = json.loads((group / "sweep.json").read_text(encoding="utf-8"))["plans"]
    assert {job["run_id"]: job["state"] for job in plan["jobs"]} == dict.fromkeys((MHA, GQA, MQA), "finished")


@pytest.mark.parametrize("name", ["mla", "vectors", "task"])
def test_a_run_that_was_finished_is_not_run_again(here: Path, name: str) -> None:
    before = contents(here / "runs" / "single")
    ended = command("src.train", *COMMANDS[name], here=here)
    assert ended.code == 0, ended.text
    assert "nothing is left to do" in ended.text, f"{ended.text}\n{MUST_STAY}"
    assert contents(here / "runs" / "single") == before


def test_a_sweep_that_was_stopped_goes_on_where_it_was(here: Path) -> None:
    group = here / "runs" / "begun"
    finished = contents(group / FINISHED)
    ended = command("src.train", *BEGUN, here=here)
    assert ended.code == 0, ended.text
    assert "1 finished, 1 to be continued" in ended.text, f"{ended.text}\n{MUST_STAY}"
    assert contents(group / FINISHED) == finished, MUST_STAY
    assert sorted(path.name for path in group.glob("*/")) == sorted([FINISHED, STOPPED]), MUST_STAY
    record, rows = record_of(group / STOPPED), rows_of(group / STOPPED)
    assert record["status"] == "finished"
    assert [segment["from_step"] for segment in record["segments"]] == [0, 13]
    # The same settings but for kv_heads=4, written out, which gives it a name of its own.
    unbroken = rows_of(BEFORE / "sharing" / MHA)
    assert [steady(row) for row in rows] == [pytest.approx(steady(row), rel=2e-5) for row in unbroken], MUST_STAY


def steady(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if is_steady(name) and name != "segment"}


@pytest.mark.parametrize(("group", "run_id"), SAMPLES)
def test_a_checkpoint_writes_the_text_it_wrote(here: Path, group: str, run_id: str) -> None:
    words = ("--prompt", "the heads", "--tokens", "40", "--temperature", "1", "--seed", "3")
    ended = command("src.sample", f"runs/{group}/{run_id}", *words, here=here)
    assert ended.code == 0, ended.text
    assert ended.text == SAMPLES[group, run_id], MUST_STAY


def test_a_checkpoint_of_vectors_is_known_as_one(here: Path) -> None:
    ended = command("src.sample", f"runs/single/{VECTORS}", here=here)
    assert ended.code == 2
    assert "reads vectors and no text" in ended.text, MUST_STAY


@pytest.mark.parametrize("group", GROUPS)
def test_an_export_keeps_its_columns_and_values(here: Path, group: str) -> None:
    ended = command("src.export", f"runs/{group}", "--out", "out", here=here)
    assert ended.code == 0, ended.text
    golden = HERE / "export" / group
    got, was = (json.loads((f / "manifest.json").read_text(encoding="utf-8")) for f in (here / "out", golden))
    kept = {name: kind for name, kind in got["columns"].items() if name in was["columns"]}
    assert list(kept.items()) == list(was["columns"].items()), TABLES_MAY_CHANGE
    for table in ("runs", "steps"):
        new, old = (cells(folder / f"{table}.csv") for folder in (here / "out", golden))
        assert [{name: row[name] for name in old[0]} for row in new] == old, f"{table}.csv: {TABLES_MAY_CHANGE}"
        assert got["files"][f"{table}.csv"]["rows"] == was["files"][f"{table}.csv"]["rows"]
    assert [name for name in got["identity"] if name in was["identity"]] == was["identity"], TABLES_MAY_CHANGE
    own = ("exported_at", "files", "columns", "identity")  # a parquet file's bytes depend on the version that wrote it
    assert {k: v for k, v in got.items() if k not in own} == {k: v for k, v in was.items() if k not in own}
    types = {field.name: str(field.type) for field in tables_of(here / "out")["runs"].schema}
    assert types == {name: ARROW[kind] for name, kind in got["columns"].items()}, TABLES_MAY_CHANGE


def cells(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, each value as it is written."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
