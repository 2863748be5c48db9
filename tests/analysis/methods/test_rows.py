"""The command that measures the rule: it goes on where it stopped, and writes only between its marks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from analysis.methods import rows as methods
from analysis.methods.trials import CURVES, FURTHER, NOISES, cells

TABLES = {
    "wrong",
    "further",
    "settled",
    "settled_wide",
    "settled_diverged",
    "always",
    "tried",
    "planned",
    *methods.ARMS,
}


def test_the_methods_page_has_a_measured_table_for_every_measurement() -> None:
    text = methods.METHODS.read_text(encoding="utf-8")
    found = dict(re.findall(r"<!-- measured: (\w+) -->\n(.*?)<!-- end -->", text, re.DOTALL))
    assert set(found) == TABLES
    for name in TABLES:
        assert found[name].count("\n") > 3, f"{name} was never measured"


def test_the_page_says_that_no_sentence_is_wrong_too_often() -> None:
    text = methods.METHODS.read_text(encoding="utf-8")
    table = text.split("<!-- measured: wrong -->\n")[1].split("<!-- end -->")[0]
    shares = [float(cell) for line in table.splitlines()[2:] for cell in line.split("|")[4:-1]]
    assert len(shares) == len(NOISES) * 3 * 4
    assert max(shares) <= 0.05


def test_the_page_says_so_of_further_studies_too() -> None:
    text = methods.METHODS.read_text(encoding="utf-8")
    table = text.split("<!-- measured: further -->\n")[1].split("<!-- end -->")[0]
    shares = [float(cell) for line in table.splitlines()[2:] for cell in line.split("|")[2:-1] if cell.strip()]
    assert len(shares) == sum(len(further.sizes) for further in FURTHER)
    assert max(shares) <= 0.05


def test_every_truth_is_measured_with_every_noise() -> None:
    names = [cell.name for cell in cells()]
    assert len(set(names)) == len(names) == len(CURVES) * len(NOISES) * 4 * 3


def double(name: str, value: int) -> dict[str, object]:
    return {"name": name, "value": 2 * value}


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path) -> None:
    kept = tmp_path / "rows.jsonl"
    jobs: list[methods.Job] = [(f"row {at}", double, (f"row {at}", at)) for at in range(3)]
    methods.run(jobs[:2], kept, 10, 1)
    with kept.open("a", encoding="utf-8") as file:
        file.write('{"name": "row 2", "val')  # the line that a stop cut short
    before = kept.read_text(encoding="utf-8").splitlines()[:2]
    rows = methods.run(jobs, kept, 10, 1)
    assert rows["row 2"]["value"] == 4
    assert kept.read_text(encoding="utf-8").splitlines()[:2] == before


def test_rows_of_another_rule_or_of_fewer_studies_are_measured_again(tmp_path: Path) -> None:
    kept = tmp_path / "rows.jsonl"
    row = {"name": "a", "version": methods.version(), "asked": 100}
    kept.write_text("\n".join(json.dumps(r) for r in (row, {**row, "name": "b", "version": "old"})), encoding="utf-8")
    assert set(methods.finished(kept, 100)) == {"a"}
    assert methods.finished(kept, 200) == {}


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    text = "a\n<!-- measured: x -->\nold\n<!-- end -->\nb\n<!-- measured: y -->\n<!-- end -->\n"
    assert methods.replaced(text, "x", r"new \1") == text.replace("old", r"new \1")
    with pytest.raises(KeyError, match="no place for 'z'"):
        methods.replaced(text, "z", "")
