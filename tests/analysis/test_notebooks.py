"""The notebooks are run; they hold no number of their own, and their kept outputs are of the export that is there."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from analysis.load import load
from analysis.notebooks import show
from analysis.notebooks.__main__ import FOLDER, run

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


def test_both_notebooks_are_there() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["explore_runs", "is_more_heads_always_better"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_read(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(show.VARIABLE, raising=False)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = run(path)
    shown = json.dumps(notebook.cells)
    for export in sorted(show.RESULTS.glob("*/export")) or [show.SAMPLE]:
        if path.stem == "is_more_heads_always_better":
            assert load(export).hash in shown
    if path.stem == "explore_runs":
        assert load(show.SAMPLE).hash in shown
    assert "image/png" in shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_kept_and_not_of_an_older_export(path: Path) -> None:
    kept = [json.dumps(cell["outputs"]) for cell in cells(path, "code")]
    assert all(cell["execution_count"] for cell in cells(path, "code"))
    exports = [show.SAMPLE] if path.stem == "explore_runs" else sorted(show.RESULTS.glob("*/export")) or [show.SAMPLE]
    for export in exports:
        assert load(export).hash in kept[0], f"run python -m analysis.notebooks: {path.name} is older than {export}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_result_is_typed_in(path: Path) -> None:
    for cell in cells(path, "code"):
        assert not re.search(r"\d+\.\d+", "".join(cell["source"]))


def test_the_sample_is_small_and_whole() -> None:
    assert sum(path.stat().st_size for path in show.SAMPLE.iterdir()) < 200_000
    export = load(show.SAMPLE)
    assert export.findings == ()
    assert (export.manifest["counts"]["planned"], len(export.runs)) == (24, 24)


def test_a_stale_export_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.analysis.export_maker import write_export

    runs = load(show.SAMPLE).runs
    folder = write_export(tmp_path / "stale", runs, partial="1 of 2 runs could not be read whole")
    monkeypatch.setenv(show.VARIABLE, str(folder))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        show.own_export()
    assert [str(warning.message) for warning in caught] == [
        "the export is partial: 1 of 2 runs could not be read whole"
    ]
