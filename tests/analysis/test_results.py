"""The READMEs say what the studies say."""

import json

import pytest

from analysis.load import load
from analysis.results.__main__ import RESULTS, pages, replaced, verdicts
from analysis.study import study_of


def test_the_readmes_are_as_the_command_writes_them() -> None:
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, f"run python -m analysis.results: {path.name} is out of date"


@pytest.mark.parametrize("study", sorted(path.parent.name for path in RESULTS.glob("*/verdict.json")))
def test_each_kept_sentence_is_the_engines(study: str) -> None:
    kept = json.loads((RESULTS / study / "verdict.json").read_text(encoding="utf-8"))
    assert kept["sentences"] == study_of(load(RESULTS / study / "export")).opening


def test_every_study_is_told() -> None:
    assert set(verdicts()) == {path.parent.parent.name for path in RESULTS.glob("*/export/manifest.json")}


def test_a_page_without_a_place_is_an_error() -> None:
    with pytest.raises(KeyError):
        replaced("nothing here", "x")
