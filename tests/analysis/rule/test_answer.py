"""The rule on studies whose answer is plain, and on tables that can carry none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analysis.findings import AnalysisError
from analysis.rule.conclude import conclude
from analysis.rule.conclusion import Conclusion
from analysis.rule.sentences import Wording

ARMS = [1, 2, 4, 8, 16]


def study(means: list[float], sd: float = 0.002, n: int = 8, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.array(means) + sd * rng.normal(size=(n, len(means))) + 0.01 * rng.normal(size=(n, 1))


def said(means: list[float], margin: float = 0.01, **more: Any) -> Conclusion:
    return conclude(study(means), ARMS[: len(means)], margin, **more)


@pytest.mark.parametrize(
    ("means", "answer", "at", "always"),
    [
        ([1.9, 1.8, 1.7, 1.6, 1.5], "every_step_helps", None, "supported"),
        ([1.5, 1.6, 1.7, 1.8, 1.9], "worse_throughout", None, "refuted"),
        ([1.9, 1.7, 1.5, 1.7, 1.9], "best_at", 4, "refuted"),
        ([1.9, 1.7, 1.5, 1.5, 1.5], "helps_up_to", 4, "open"),
        ([1.5, 1.5, 1.5, 1.5, 1.5], "no_difference", None, "open"),
        ([1.8, 1.9, 1.9, 1.85, 1.7], "no_clear_order", None, "refuted"),
    ],
)
def test_the_answer_of_a_clear_study(means: list[float], answer: str, at: int | None, always: str) -> None:
    found = said(means)
    assert (found.answer, found.at, found.more_is_always_better.status) == (answer, at, always)


def test_higher_can_be_better() -> None:
    values = study([0.5, 0.6, 0.7, 0.8, 0.9])
    found = conclude(values, ARMS, 0.01, better="higher", wording=Wording(unit=""))
    assert found.answer == "every_step_helps"
    assert found.pair(1, 16).difference == pytest.approx(0.4, abs=0.01)
    assert conclude(values, ARMS, 0.01).answer == "worse_throughout"


def test_a_hump_is_no_turn_for_the_worse_and_names_both_sides() -> None:
    found = said([1.8, 1.9, 1.9, 1.85, 1.7])
    assert "worse than 1" in found.sentence
    assert "16 heads are better than" in found.sentence


def test_steps_of_half_a_margin_are_no_levelling_off() -> None:
    found = said([1.52, 1.515, 1.51, 1.505, 1.5], margin=0.01)
    assert found.answer in ("every_step_helps", "not_settled", "helps_up_to")
    assert found.more_is_always_better.status != "refuted"


def test_worse_is_a_result_though_its_size_is_open() -> None:
    rng = np.random.default_rng(2)
    values = np.array([1.0, 1.02]) + 0.005 * rng.normal(size=(12, 2))
    found = conclude(values, [1, 16], 0.018)
    assert found.answer == "worse_throughout"
    assert found.pair(1, 16).size == "open"
    assert found.sentence.endswith("whether by more than the margin of 0.018 nats is not settled.")


def test_a_gain_smaller_than_the_margin_refutes_by_the_margin_only() -> None:
    always = said([1.9, 1.7, 1.5, 1.5, 1.5]).more_is_always_better
    assert (always.status, always.by_margin, always.by_margin_refuted_by) == ("open", "refuted", (4, 8))


def test_identical_losses_have_no_best() -> None:
    values = np.repeat(np.array([[1.5], [1.6], [1.55], [1.52], [1.58], [1.51]]), 5, axis=1)
    assert conclude(values, ARMS, 0.01).answer == "no_difference"
    bare = conclude(values, ARMS, 0.0)
    assert bare.answer == "not_settled"
    assert "margin" in {missing.kind for missing in bare.missing}


@pytest.mark.parametrize("margin", [-0.01, float("nan"), float("inf")])
def test_a_margin_that_is_none_is_refused(margin: float) -> None:
    with pytest.raises(AnalysisError, match="a margin is a finite number"):
        said([1.5, 1.6], margin=margin)


def test_with_a_margin_of_zero_nothing_is_called_alike() -> None:
    found = said([1.5, 1.5, 1.5, 1.5, 1.5], margin=0.0)
    assert found.answer == "not_settled"
    assert not any(pair.size == "within" for pair in found.pairs)


def test_one_arm_or_one_seed_settles_nothing_and_says_why() -> None:
    alone = conclude(study([1.5]), [8], 0.01)
    assert (alone.answer, alone.missing[0].kind) == ("not_settled", "arms")
    assert alone.sentence == "Not settled: only 8 heads ran."
    one_seed = conclude(study([1.5, 1.6, 1.7])[:1], [1, 2, 4], 0.01)
    assert one_seed.sentence == "Not settled: no two arms share two seeds."
    assert one_seed.missing[0].kind == "seeds"


def test_arms_given_twice_or_in_the_wrong_number_are_refused() -> None:
    with pytest.raises(AnalysisError, match="each arm once"):
        conclude(study([1.5, 1.6]), [1, 1], 0.01)
    with pytest.raises(AnalysisError, match="each arm once"):
        conclude(study([1.5, 1.6]), [1, 2, 4], 0.01)


def test_labels_without_an_order_have_a_best_but_no_more() -> None:
    found = conclude(study([1.9, 1.5, 1.7]), ["MQA", "MHA", "MLA"], 0.01, ordered=False, wording=Wording(None))
    assert (found.answer, found.at, found.more_is_always_better.status) == ("best_at", "MHA", "open")
    assert found.sentence.startswith("MHA is best: every other arm is worse")
    close = conclude(study([1.5, 1.5, 1.7]), ["MQA", "MHA", "MLA"], 0.01, ordered=False, wording=Wording(None))
    assert close.answer == "not_settled"


def test_survivors_do_not_speak_for_an_arm_that_diverged() -> None:
    rng = np.random.default_rng(0)
    values = np.array([1.6, 1.5]) + 0.02 * rng.normal(size=(20, 2))
    values[:, 1] -= 0.05
    diverged = np.zeros(values.shape, dtype=bool)
    diverged[:7, 1] = True
    found = conclude(np.where(diverged, np.nan, values), [1, 16], 0.01, diverged=diverged)
    assert found.answer == "not_settled"
    assert found.pair(1, 16).by == "rank"
    assert found.missing[0].kind == "diverged"
    assert found.rates[16].diverged == 7
    assert conclude(values, [1, 16], 0.01).answer == "every_step_helps"


def test_an_arm_that_diverged_and_is_behind_is_worse_by_rank() -> None:
    values = study([1.5, 1.4, 1.3, 1.6], n=12)
    diverged = np.zeros(values.shape, dtype=bool)
    diverged[:4, 3] = True
    found = conclude(np.where(diverged, np.nan, values), [1, 2, 4, 8], 0.01, diverged=diverged)
    assert (found.answer, found.at) == ("best_at", 4)
    assert "by rank (on 12 of 12 seeds; 4 of 12 runs diverged and count as worst)" in found.sentence


def test_an_unsettled_study_names_the_answer_that_its_means_point_to() -> None:
    values = study([1.53, 1.515, 1.5, 1.503, 1.504], sd=0.006, n=4)
    found = conclude(values, ARMS, 0.01)
    assert found.answer == "not_settled"
    assert found.nearest is not None
    assert found.missing[0].pairs


def test_unpaired_runs_are_compared_and_named_as_such() -> None:
    values = study([1.9, 1.5], n=8)
    values[:4, 0] = values[4:, 1] = np.nan  # no seed is shared
    assert conclude(values, [1, 2], 0.01).answer == "not_settled"
    found = conclude(values, [1, 2], 0.01, paired=False)
    assert found.answer == "every_step_helps"
    assert "not paired" in found.method
