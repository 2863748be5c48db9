import doctest
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from analysis import findings
from analysis.findings import AnalysisError
from analysis.question import Question
from analysis.summary import claim
from analysis.verdict import Verdict, judge

MakeRuns = Callable[..., pd.DataFrame]
Noisy = Callable[..., dict[int, list[float]]]
FALLING = {1: 1.9, 2: 1.8, 4: 1.7, 8: 1.6, 16: 1.5}


def test_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(findings).failed == 0


def one(runs: pd.DataFrame, **question: object) -> Verdict:
    (verdict,) = judge(runs, Question(**question)).verdicts  # pyright: ignore[reportArgumentType]
    return verdict


@pytest.mark.parametrize(
    ("means", "answer"),
    [
        (FALLING, "yes"),
        ({1: 1.9, 2: 1.8, 4: 1.7, 8: 1.8, 16: 1.9}, "no: it hurts"),
        ({1: 1.9, 2: 1.8, 4: 1.8, 8: 1.8, 16: 1.8}, "no: it levels off"),
        ({1: 1.9, 2: 1.8, 4: 1.7, 8: 1.703, 16: 1.706}, "no: it levels off"),
        ({1: 1.9, 2: 1.8, 4: 1.7, 8: 1.707, 16: 1.719}, "no: it hurts"),
        (dict.fromkeys(FALLING, 1.9), "no: it levels off"),
        ({1: 1.9, 2: 1.92, 4: 1.94, 8: 1.96, 16: 1.98}, "no: it hurts"),
    ],
)
def test_the_answer_follows_the_curve(make_runs: MakeRuns, noisy: Noisy, means: dict[int, float], answer: str) -> None:
    assert one(make_runs(noisy(means)), margin=0.01).answer == answer


def test_a_yes_needs_every_planned_head_count(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy(FALLING))
    assert one(runs, margin=0.01).answer == "yes"
    runs.loc[runs["heads"] == 8, "status"] = "failed"
    assert one(runs, margin=0.01).answer == "unsettled"


def test_noise_settles_nothing(make_runs: MakeRuns, noisy: Noisy) -> None:
    verdict = one(make_runs(noisy(dict.fromkeys(FALLING, 1.9), sd=0.1)), margin=0.01)
    assert verdict.answer == "unsettled"
    assert set(verdict.contrasts["label"]) == {"INCONCLUSIVE"}


def test_the_same_table_and_seed_give_the_same_verdict_in_any_row_order(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy({1: 1.9, 2: 1.8, 4: 1.7, 8: 1.7, 16: 1.7}, seeds=18))
    first, again = one(runs), one(runs.sample(frac=1, random_state=3))
    pd.testing.assert_frame_equal(first.contrasts, again.contrasts)
    pd.testing.assert_frame_equal(first.arms, again.arms)
    assert first.shape == again.shape
    assert first.shape.best is not None
    assert len([share for share in first.shape.best.shares.values() if share > 0]) > 1
    assert claim(first) == claim(again)


def test_the_default_margin_is_two_seed_sds_and_says_where_it_comes_from(make_runs: MakeRuns) -> None:
    # Within-arm variances 0.01 and 0.04, two degrees of freedom each.
    verdict = one(make_runs({1: [1.0, 1.1, 1.2], 2: [1.0, 1.2, 1.4]}))
    assert verdict.margin == pytest.approx(2 * np.sqrt(0.025))
    assert verdict.margin_source == "same data"
    assert one(make_runs({1: [1.0, 1.1], 2: [1.0, 1.2]}), margin=0.3).margin_source == "fixed beforehand"


def test_unequal_tokens_compare_nothing_until_steps_give_a_common_one(make_runs: MakeRuns, noisy: Noisy) -> None:
    losses = noisy({1: 1.9, 16: 1.95})
    runs = make_runs(losses)
    runs.loc[runs["heads"] == 16, "train/tokens"] = 700_000
    verdict = one(runs, margin=0.01)
    assert verdict.contrasts.empty
    assert "unequal numbers of training tokens" in claim(verdict)
    steps = pd.DataFrame(
        [
            {"run_id": run, "step": step, "val/loss": loss + lag}
            for run, heads, loss in zip(runs["run_id"], runs["heads"], runs["val/loss"], strict=True)
            for step, lag in ((500, 0.0 if heads == 16 else 0.2), (1000, 0.0))
            if heads == 1 or step == 500
        ]
    )
    (fair,) = judge(runs, Question(margin=0.01), steps=steps).verdicts
    assert fair.common_step == 500
    assert fair.contrasts["label"].tolist() == ["HELPS"]
    assert one(runs, margin=0.01, allow_unequal_tokens=True).contrasts["label"].tolist() == ["HURTS"]


def test_a_mixture_is_judged_apart_and_named(make_runs: MakeRuns, noisy: Noisy) -> None:
    small = make_runs(noisy({1: 1.9, 2: 1.8}))
    large = make_runs(noisy({1: 1.5, 2: 1.5}), **{"config.model.d_model": 256})
    study = judge(pd.concat([small, large]), Question(margin=0.02))
    assert [verdict.condition["model.d_model"] for verdict in study.verdicts] == [128, 256]
    assert [verdict.contrasts["label"].tolist() for verdict in study.verdicts] == [["HELPS"], ["PLATEAU"]]
    assert "model.d_model (128, 256)" in study.findings[0].text


def test_an_experiment_that_cannot_be_judged_does_not_take_the_others_with_it(
    make_runs: MakeRuns, noisy: Noisy
) -> None:
    good = make_runs(noisy({1: 1.9, 2: 1.8}))
    bad = make_runs({1: [np.nan], 2: [np.nan]}, **{"config.model.d_model": 256})
    study = judge(pd.concat([good, bad]))
    assert len(study.verdicts) == 1
    assert "no run has a finite val/loss: 0 of 2" in study.findings[-1].text


def test_a_planned_run_that_never_started_is_accounted_for(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy({1: 1.9, 2: 1.8}))
    planned = pd.concat([runs[["run_id", "heads", "seed"]], pd.DataFrame({"run_id": ["x"], "heads": [4], "seed": [0]})])
    (verdict,) = judge(runs, planned=planned).verdicts
    assert verdict.coverage.sentence.startswith("12 of 13 planned runs are counted; left out: heads=4 seed 0 (not run)")


def test_a_missing_run_in_one_arm_costs_the_others_no_label(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy(FALLING))
    runs.loc[(runs["heads"] == 16) & (runs["seed"] == 2), "status"] = "preempted"
    labels = one(runs, margin=0.01).contrasts["label"].tolist()
    assert labels == ["HELPS", "HELPS", "HELPS", "INCONCLUSIVE"]


def test_a_sweep_over_kv_heads_is_judged_like_one_over_heads(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy({1: 1.9, 2: 1.8, 8: 1.7}))
    runs = runs.assign(kv_heads=runs["heads"], heads=8, **{"config.kv_heads": runs["heads"]})
    verdict = one(runs, factor="kv_heads", margin=0.02)
    assert verdict.contrasts["label"].tolist() == ["HELPS", "HELPS"]
    assert "from 1 to 8 kv_heads" in claim(verdict)


def _without(*columns: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda runs: runs.drop(columns=list(columns))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda runs: runs.iloc[:0], "holds no runs"),
        (_without("val/loss"), "no column 'val/loss'"),
        (_without("seed"), "no column 'seed'"),
        (lambda runs: runs.assign(status="failed"), "0 of 12 planned runs are counted"),
        (lambda runs: runs.assign(**{"val/loss": np.nan}), "finished without a finite val/loss"),
        (lambda runs: runs.assign(heads=None), "no run has a finite val/loss"),
    ],
    ids=["empty", "no metric", "no seed", "all failed", "all NaN", "no heads"],
)
def test_a_table_that_answers_nothing_is_refused_in_a_sentence(
    make_runs: MakeRuns, noisy: Noisy, change: Callable[[pd.DataFrame], pd.DataFrame], says: str
) -> None:
    with pytest.raises(AnalysisError, match=says):
        judge(change(make_runs(noisy({1: 1.9, 2: 1.8}))))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda runs: runs[runs["heads"] == 1], "only heads=1 has usable runs"),
        (lambda runs: runs[runs["seed"] == 0], "no arm has two seeds that differ"),
        (lambda runs: runs.assign(**{"val/loss": 1.5}), "no arm has two seeds that differ"),
        (lambda runs: runs[(runs["heads"] == 1) == (runs["seed"] < 3)], "no two arms share two seeds"),
        (lambda runs: runs[runs["seed"] < 4], "under 6 pairs (1 to 2: 4)"),
        (_without("train/tokens"), "equal training could not be checked"),
        (_without("cache/bytes"), "no frontier over cache/bytes"),
        (lambda runs: runs[["run_id", "status", "seed", "heads", "val/loss"]], "no frontier over"),
        (lambda runs: runs.assign(**{"decode/ms_per_token": np.nan}), "known for 0 arms"),
    ],
    ids=["one arm", "one seed", "no spread", "no shared seeds", "few", "no tokens", "no cost", "bare", "NaN cost"],
)
def test_a_thin_table_says_what_is_missing_and_still_gives_the_means(
    make_runs: MakeRuns, noisy: Noisy, change: Callable[[pd.DataFrame], pd.DataFrame], says: str
) -> None:
    verdict = one(change(make_runs(noisy({1: 1.9, 2: 1.8}))))
    assert says in " ".join(map(str, verdict.findings))
    assert verdict.arms["mean"].notna().all()
    assert len(claim(verdict)) > 100


@pytest.mark.parametrize("margin", [0.0, -1.0, float("nan"), float("inf")])
def test_a_margin_that_is_none_is_refused(make_runs: MakeRuns, margin: float) -> None:
    with pytest.raises(AnalysisError, match="a margin is a finite number above 0"):
        one(make_runs({1: [1.0]}), margin=margin)


def test_a_reference_that_did_not_run_is_refused_by_name(make_runs: MakeRuns, noisy: Noisy) -> None:
    with pytest.raises(AnalysisError, match="the reference 3 has no usable run"):
        one(make_runs(noisy({1: 1.9, 2: 1.8})), against=3)


def test_the_table_that_was_given_is_left_as_it_was(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy(FALLING))
    before = runs.copy(deep=True)
    judge(runs)
    pd.testing.assert_frame_equal(runs, before)


def test_the_analysis_loads_nothing_heavy() -> None:
    program = (
        "import sys, analysis.verdict, analysis.summary, analysis.tuning, analysis.methods;"
        "print([name for name in ('torch', 'hydra', 'wandb', 'omegaconf', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"
