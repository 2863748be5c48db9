import re
from pathlib import Path

import pandas as pd
import pytest

from analysis import methods


def test_the_methods_page_has_a_measured_table_for_every_measurement() -> None:
    text = methods.METHODS.read_text(encoding="utf-8")
    found = re.findall(r"<!-- measured: (\w+) -->\n(.*?)<!-- end -->", text, re.DOTALL)
    assert {name for name, _ in found} == set(methods.TABLES)
    for name, table in found:
        assert table.count("\n") > 3, f"{name} was never measured"


def test_a_table_is_the_same_however_many_others_are_measured() -> None:
    pd.testing.assert_frame_equal(
        methods.measured("improvement_coverage", 200, 0), methods.measured("improvement_coverage", 200, 0)
    )


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    text = "a\n<!-- measured: x -->\nold\n<!-- end -->\nb\n<!-- measured: y -->\n<!-- end -->\n"
    assert methods.replaced(text, "x", r"new \1") == text.replace("old", r"new \1")
    with pytest.raises(KeyError, match="no place for 'z'"):
        methods.replaced(text, "z", "")


def test_the_command_writes_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "METHODS.md"
    page.write_text("<!-- measured: planned_power -->\n<!-- end -->\n", encoding="utf-8")
    monkeypatch.setattr(methods, "METHODS", page)
    methods.main(studies=50, only=["planned_power"])
    assert "| question | difference (SD) |" in page.read_text(encoding="utf-8")
