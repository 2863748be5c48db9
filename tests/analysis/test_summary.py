import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from analysis.question import Question
from analysis.summary import claim
from analysis.verdict import Verdict, judge

MakeRuns = Callable[..., pd.DataFrame]
Noisy = Callable[..., dict[int, list[float]]]


@pytest.fixture
def verdict(make_runs: MakeRuns, noisy: Noisy) -> Verdict:
    runs = make_runs(noisy({1: 1.90, 2: 1.86, 4: 1.85, 8: 1.85, 16: 1.905}, seeds=8))
    runs.loc[(runs["heads"] == 2) & (runs["seed"] == 3), "status"] = "oom"
    return judge(runs, Question(margin=0.015)).verdicts[0]


def test_the_claim_carries_what_a_reviewer_asks_for(verdict: Verdict) -> None:
    text = claim(verdict)
    row = verdict.contrasts.iloc[1]
    for part in (
        "More heads is not always better: past some count it hurts.",
        "regime fixed_width",
        "model nano (d_model 128, layers 4, 804,096 parameters)",
        "data shakespeare (hash 5f0a)",
        "context 64 tokens",
        "2,000 steps",
        "learning rate 0.001",
        "n = 7 to 8 paired seeds",
        "margin of 0.015 fixed beforehand",
        f"from 1 to 4 heads ({row['difference']:+.4g}, {row['low']:+.4g} to {row['high']:+.4g}, n = 8",
        f"n = 8, p = {row['p_family']:.3g})",
        "39 of 40 planned runs are counted; left out: heads=2 seed 3 (oom).",
        "This holds for heads 1, 2, 4, 8, 16 in this setting; it says nothing about other counts",
    ):
        assert part in text


def test_a_margin_from_the_same_data_is_said_to_be_one(make_runs: MakeRuns, noisy: Noisy) -> None:
    (verdict,) = judge(make_runs(noisy({1: 1.9, 2: 1.8}))).verdicts
    assert "2 seed standard deviations of the same data, not fixed beforehand" in claim(verdict)


def test_an_open_contrast_names_the_seeds_that_would_settle_it(make_runs: MakeRuns, noisy: Noisy) -> None:
    (verdict,) = judge(make_runs(noisy({1: 1.9, 2: 1.89}, sd=0.01)), Question(margin=0.004)).verdicts
    needed = verdict.contrasts["seeds_needed"].iloc[0]
    assert f"about {needed} seeds would settle it" in claim(verdict)


def test_too_few_pairs_are_said_once(make_runs: MakeRuns, noisy: Noisy) -> None:
    text = claim(judge(make_runs(noisy({1: 1.9, 2: 1.8, 4: 1.7}, seeds=3))).verdicts[0])
    assert text.count("With 3 pairs no p can fall below 0.25, so no label can be given.") == 1


def test_one_arm_alone_gets_its_mean_and_no_comparison(make_runs: MakeRuns) -> None:
    (verdict,) = judge(make_runs({8: [1.5, 1.6, 1.7]})).verdicts
    text = claim(verdict)
    assert "only heads=8 has usable runs" in text
    assert "heads=8: val/loss 1.6 nats/token (n = 3, 95% interval 1.3516 to 1.8484)" in text


def test_one_seed_alone_gets_its_number_without_an_interval(make_runs: MakeRuns) -> None:
    text = claim(judge(make_runs({1: [1.9], 8: [1.5]})).verdicts[0])
    assert "heads=8: val/loss 1.5 nats/token (n = 1)" in text
    assert "more seeds" in text


def test_the_claim_never_prints_a_missing_number(make_runs: MakeRuns, noisy: Noisy) -> None:
    bare = make_runs(noisy({1: 1.9, 2: 1.8}))[["run_id", "status", "seed", "heads", "val/loss"]]
    for runs in (bare, make_runs({1: [1.9], 8: [1.5]}), make_runs({1: [1.9, np.nan], 8: [1.5, 1.5]})):
        text = claim(judge(runs).verdicts[0]).replace("without a finite val/loss: nan", "")
        assert re.findall(r"\b(nan|None|NaN|inf)\b", text) == []


def test_a_label_that_only_survivors_support_is_said_to_be_one_and_no_seeds_are_asked_for(
    make_runs: MakeRuns, noisy: Noisy
) -> None:
    runs = make_runs(noisy({1: 1.9, 2: 1.89, 8: 1.8}, seeds=8, sd=0.006))
    runs.loc[(runs["heads"] == 8) & (runs["seed"] == 3), ["status", "val/loss"]] = "diverged", np.nan
    (verdict,) = judge(runs, Question(margin=0.015)).verdicts
    assert verdict.contrasts["seeds_plan"].notna().tolist() == [True, False]
    row = verdict.contrasts.iloc[-1]
    assert (row["label"], pd.isna(row["seeds_plan"])) == ("INCONCLUSIVE", True)
    assert row["reason"] in claim(verdict)
    assert "more than" not in claim(verdict)
