"""The verdict where theory knows it, over the committed exports of real runs."""

from __future__ import annotations

import json
import re

import pytest

from analysis.load import load
from analysis.report.write import json_of
from analysis.study import Study, study_of
from src import ROOT
from src.data.tasks.two_lookups import TwoLookups

RESULTS = ROOT / "analysis" / "results"
SOMEBODY_S_FOLDER = re.compile(r"/(home|root|work|tmp|Users)/")


def answers(study: str) -> Study:
    return study_of(load(RESULTS / study / "export"))


def test_more_heads_hurt_where_one_of_full_rank_does_it() -> None:
    (verdict,) = answers("farthest_point").verdicts
    assert verdict.answer == "worse_throughout"
    assert all(pair.size == "beyond" for pair in verdict.pairs)


def test_more_heads_help_where_each_can_do_one_part() -> None:
    (verdict,) = answers("max_retrieval").verdicts
    assert verdict.answer == "every_step_helps"
    assert verdict.sentence.startswith("More heads help at every step, up to 4 heads, the most that was tried")


def test_more_heads_help_up_to_two_where_an_answer_takes_two_lookups() -> None:
    (verdict,) = answers("two_lookups").verdicts
    assert verdict.conclusion is not None
    assert (verdict.answer, verdict.conclusion.at) == ("helps_up_to", 2)
    blind = TwoLookups(keys=16, values=4, repeats=16, train_examples=None, test_examples=1).landmarks
    means = verdict.cells.values.mean()
    assert 0.6 * blind["one head, blind to the order"] < means[1] < blind["chance"] / 3
    assert means[2] < 0.05


def test_nothing_levels_off_in_head_count() -> None:
    (verdict,) = answers("head_count").verdicts
    assert verdict.answer == "worse_throughout"


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
        assert min(pair.seeds for pair in verdict.pairs) >= 6
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
