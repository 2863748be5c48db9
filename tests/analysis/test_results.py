"""The READMEs say what the studies say."""

import json
from pathlib import Path

import pytest

from analysis.load import load
from analysis.results.__main__ import RESULTS, pages, replaced, verdicts
from analysis.results.picture import doublings, draw
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


def test_the_figures_show_each_experiments_doublings_and_margin(tmp_path: Path) -> None:
    studies = verdicts()
    drawn = {path.name: path for path in draw(studies, tmp_path)}
    assert set(drawn) == {"all_studies.svg", "all_studies.png", "positions.svg", "positions.png"}
    shown = drawn["all_studies.svg"].read_text(encoding="utf-8")
    for name, study in studies.items():
        for verdict in study["verdicts"]:
            assert f">{name}" in shown
            assert f"(margin {verdict['margin']:g})" in shown
            assert [pair["later"] / pair["earlier"] for pair in doublings(verdict)] == [2] * (len(verdict["arms"]) - 1)


def test_the_committed_figures_are_as_the_command_draws_them(tmp_path: Path) -> None:
    for path in draw(verdicts(), tmp_path):
        if path.suffix == ".svg":
            assert path.read_text() == (RESULTS / path.name).read_text(), "run python -m analysis.results"


def test_the_readmes_own_words_are_backed_by_verdicts() -> None:
    """'With rotary positions more heads help up to eight; with learned ones one head is best, and all are worse.'"""
    told = {name: study["verdicts"] for name, study in verdicts().items()}
    (rotary,), (learned,) = told["head_count_rotary"], told["head_count"]
    directions = {(pair["earlier"], pair["later"]): pair["direction"] for pair in rotary["pairs"]}
    assert {directions[pair] for pair in ((1, 2), (2, 4), (4, 8))} == {"better"}
    assert directions[8, 16] == "open"
    assert learned["answer"] == "worse_throughout"
    worst, best = max(arm["worst"] for arm in rotary["arms"]), min(arm["best"] for arm in learned["arms"])
    assert worst < best
    assert told["farthest_point"][0]["answer"] == "worse_throughout"
    assert told["max_retrieval"][0]["answer"] == "every_step_helps"
