"""The verdict where theory knows it, over the committed exports of real runs."""

from __future__ import annotations

import json
import re

import pytest

from analysis.load import load
from analysis.report.write import json_of
from analysis.study import Study, study_of
from src import ROOT

RESULTS = ROOT / "analysis" / "results"
SOMEBODY_S_FOLDER = re.compile(r"/(home|root|work|tmp|Users)/")


def answers(study: str) -> Study:
    return study_of(load(RESULTS / study / "export"))


def labels(study: str) -> dict[tuple[int, int], str]:
    (verdict,) = answers(study).verdicts
    assert set(verdict.contrasts["pairs"]) == {6}
    return {(row["fewer"], row["more"]): row["label"] for row in verdict.contrasts.to_dict("records")}


def test_more_heads_hurt_where_one_of_full_rank_does_it() -> None:
    assert labels("farthest_point") == {(1, more): "HURTS" for more in (2, 4, 8, 16)}
    assert answers("farthest_point").opening[0].startswith("More heads is not always better: past some count it hurts.")


def test_more_heads_help_where_each_can_do_one_part() -> None:
    assert labels("max_retrieval") == {(1, 2): "HELPS", (1, 4): "HELPS"}
    assert answers("max_retrieval").opening[0].startswith("Over the heads that ran, more was better at every step.")


def test_four_heads_are_a_hundred_times_better_than_one_on_every_seed() -> None:
    (verdict,) = answers("max_retrieval").verdicts
    values = verdict.cells.values
    assert len(values) == 6
    assert (values[1] > 100 * values[4]).all()


@pytest.mark.parametrize("study", sorted(path.parent.parent.name for path in RESULTS.glob("*/export/manifest.json")))
def test_a_committed_study_is_complete_and_names_nobody_s_folders(study: str) -> None:
    found = answers(study)
    assert found.refusal is None
    for verdict in found.verdicts:
        assert verdict.coverage.used == verdict.coverage.planned
        assert min(verdict.contrasts["pairs"]) >= 6
    for path in (RESULTS / study).rglob("*"):
        if path.suffix in (".csv", ".json", ".md", ".html", ".svg"):
            assert not SOMEBODY_S_FOLDER.search(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize("study", sorted(path.parent.name for path in RESULTS.glob("*/verdict.json")))
def test_the_arms_of_a_committed_study_are_what_its_report_says(study: str) -> None:
    kept = json.loads((RESULTS / study / "verdict.json").read_text(encoding="utf-8"))
    now = json_of(answers(study))
    assert len(kept["verdicts"]) == len(now["verdicts"])
    for then, again in zip(kept["verdicts"], now["verdicts"], strict=True):
        for before, after in zip(then["arms"], again["arms"], strict=True):
            assert after.keys() == before.keys()
            missing = [{name for name, value in row.items() if value is None} for row in (before, after)]
            assert missing[0] == missing[1]
            numbers = {name: value for name, value in before.items() if value is not None}
            assert {name: after[name] for name in numbers} == pytest.approx(numbers, rel=1e-9)
