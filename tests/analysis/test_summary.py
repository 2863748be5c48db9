from collections.abc import Callable

import pandas as pd
import pytest

from analysis.question import Amount, Question
from analysis.summary import bullets, shown_words, tradeoff_of
from analysis.verdict import Verdict, judge

MakeRuns = Callable[..., pd.DataFrame]
Noisy = Callable[..., dict[int, list[float]]]


@pytest.fixture
def verdict(make_runs: MakeRuns, noisy: Noisy) -> Verdict:
    runs = make_runs(noisy({1: 1.90, 2: 1.86, 4: 1.85, 8: 1.85, 16: 1.905}, seeds=8))
    runs.loc[(runs["heads"] == 2) & (runs["seed"] == 3), "status"] = "oom"
    return judge(runs, Question(margin=Amount(0.015, "", "recorded before the runs"))).verdicts[0]


def test_three_bullets_carry_what_a_reviewer_asks_for(verdict: Verdict) -> None:
    sure, where, missing = bullets(verdict)
    for part in (
        "7 to 8 paired seeds, all 10 pairs of arms together at 95%",
        "p = ",
        "39 of 40 planned runs counted",
    ):
        assert part in sure
    for part in (
        "regime fixed_width",
        "model nano (d_model 128, layers 4, 804,096 parameters)",
        "data shakespeare (hash 5f0a)",
        "context 64",
        "2,000 steps",
        "learning rate 0.001",
        "a margin of 0.015 (recorded before the runs)",
    ):
        assert part in where
    assert missing.startswith("Not shown: other counts than heads 1, 2, 4, 8, 16")


def test_words_and_intervals_never_contradict_each_other(verdict: Verdict) -> None:
    for pair in verdict.pairs:
        words = shown_words(pair)
        assert words.startswith("better") == (pair.high < 0)
        assert words.startswith("worse") == (pair.low > 0)
        assert ("by more than the margin" in words) == (pair.low > 0.015 or pair.high < -0.015)
        assert ("within the margin" in words or "less than the margin" in words) == (
            pair.low > -0.015 and pair.high < 0.015
        )


def test_one_arm_alone_gets_its_mean_and_no_comparison(make_runs: MakeRuns) -> None:
    (verdict,) = judge(make_runs({8: [1.5, 1.6, 1.7]})).verdicts
    assert verdict.sentence == "Not settled: only 8 heads ran."
    assert "heads=8: val/loss 1.6 nats/token (n = 3, 95% interval 1.3516 to 1.8484)" in bullets(verdict)[0]


def test_quality_and_cache_stand_side_by_side(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy({1: 1.95, 2: 1.9, 8: 1.9}, seeds=8, seed=3))
    runs = runs.assign(kv_heads=runs["heads"], heads=8, **{"config.kv_heads": runs["heads"]})
    runs["cache/bytes"] = runs["kv_heads"] * 1024
    (verdict,) = judge(runs, Question(factor="kv_heads", margin=0.02)).verdicts
    assert tradeoff_of(verdict) == (
        "Beside 8 kv-heads, which keeps the most: 1 kv-head keeps 0.125 of the cache: worse, by more than the margin; "
        "2 kv-heads keeps 0.25 of the cache: alike (within the margin)."
    )
