import doctest
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis import findings
from analysis.findings import AnalysisError
from analysis.question import Amount, Question, parsed_margin
from analysis.rule.intervals import simultaneous
from analysis.summary import bullets, how_sure, missing_arms, not_shown, setting
from analysis.verdict import Verdict, judge

MakeRuns = Callable[..., pd.DataFrame]
Noisy = Callable[..., dict[int, list[float]]]
FALLING = {1: 1.9, 2: 1.8, 4: 1.7, 8: 1.6, 16: 1.5}


def test_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(findings).failed == 0


def one(runs: pd.DataFrame, **question: object) -> Verdict:
    (verdict,) = judge(runs, Question(**question)).verdicts  # pyright: ignore[reportArgumentType]
    return verdict


def shown(verdict: Verdict) -> list[str]:
    return [pair.direction for pair in verdict.pairs]


@pytest.mark.parametrize(
    ("means", "answer", "at"),
    [
        (FALLING, "every_step_helps", None),
        ({1: 1.9, 2: 1.8, 4: 1.7, 8: 1.8, 16: 1.9}, "best_at", 4),
        ({1: 1.9, 2: 1.8, 4: 1.8, 8: 1.8, 16: 1.8}, "helps_up_to", 2),
        ({1: 1.8, 2: 1.9, 4: 1.9, 8: 1.85, 16: 1.7}, "no_clear_order", None),
        (dict.fromkeys(FALLING, 1.9), "no_difference", None),
        ({1: 1.9, 2: 1.92, 4: 1.94, 8: 1.96, 16: 1.98}, "worse_throughout", None),
    ],
)
def test_the_answer_follows_the_curve(
    make_runs: MakeRuns, noisy: Noisy, means: dict[int, float], answer: str, at: int | None
) -> None:
    verdict = one(make_runs(noisy(means)), margin=0.01)
    assert verdict.conclusion is not None
    assert (verdict.answer, verdict.conclusion.at) == (answer, at)


def test_an_arm_without_any_run_is_named_and_nothing_is_said_of_it(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy(FALLING))
    runs.loc[runs["heads"] == 8, "status"] = "failed"
    verdict = one(runs, margin=0.01)
    assert {pair.later for pair in verdict.pairs} == {2, 4, 16}
    assert missing_arms(verdict) == ["8"]
    assert "anything of heads 8, of which no run finished" in not_shown(verdict)


def test_noise_settles_nothing_and_says_what_is_missing(make_runs: MakeRuns, noisy: Noisy) -> None:
    verdict = one(make_runs(noisy(dict.fromkeys(FALLING, 1.9), sd=0.1, seed=2)), margin=0.01)
    assert verdict.answer == "not_settled"
    assert set(shown(verdict)) == {"open"}
    assert verdict.conclusion is not None
    assert [item.kind for item in verdict.conclusion.missing] == ["seeds"]


def test_the_same_table_and_seed_give_the_same_verdict_in_any_row_order(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy({1: 1.9, 2: 1.8, 4: 1.7}, seeds=18))
    first, again = one(runs), one(runs.sample(frac=1, random_state=3))
    assert first.pairs == again.pairs
    pd.testing.assert_frame_equal(first.arms, again.arms)
    assert first.sentence == again.sentence


def test_a_margin_says_where_it_comes_from(make_runs: MakeRuns) -> None:
    # Within-arm variances 0.01 and 0.04, two degrees of freedom each.
    runs = make_runs({1: [1.0, 1.1, 1.2], 2: [1.0, 1.2, 1.4]})
    margins = {
        None: (0.0, "none"),
        Amount(2, "sd"): (2 * np.sqrt(0.025), "taken from the data"),
        Amount(1, "bits"): (np.log(2), "given later"),
        Amount(1, "%"): (0.011, "given later"),
        Amount(0.3, "", "recorded before the runs"): (0.3, "recorded before the runs"),
        0.3: (0.3, "given later"),
    }
    for asked, (value, provenance) in margins.items():
        margin = one(runs, margin=asked).margin
        assert (margin.value, margin.provenance) == (pytest.approx(value), provenance)


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "1 furlong", "", "0.1.2", "1e-3 nats nats"])
def test_a_margin_that_is_none_is_refused_with_examples(text: str) -> None:
    with pytest.raises(AnalysisError, match=r"0\.02 bits"):
        parsed_margin(text)


def test_a_diverged_run_is_an_outcome_and_no_survivor_is_averaged(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy({1: 1.9, 8: 1.8}, seeds=8))
    runs.loc[(runs["heads"] == 8) & (runs["seed"] < 3), ["status", "val/loss"]] = "diverged", np.nan
    verdict = one(runs, margin=0.01)
    (pair,) = verdict.pairs
    assert (pair.by, pair.direction, pair.worse_on, pair.better_on) == ("rank", "open", 3, 5)
    assert verdict.conclusion is not None
    assert verdict.conclusion.rates[8].diverged == 3
    assert "diverged: 3 of 8 at 8" in how_sure(verdict)


def test_an_arm_whose_every_run_diverged_is_worse_and_named(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy({1: 1.9, 8: 1.8}, seeds=8))
    runs.loc[runs["heads"] == 8, ["status", "val/loss"]] = "diverged", np.nan
    verdict = one(runs, margin=0.01)
    assert verdict.answer == "worse_throughout"
    assert "8 of 8 runs diverged" in verdict.sentence


def test_seeds_that_are_not_shared_are_compared_unpaired_and_that_is_said(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy({1: 1.9, 2: 1.8}, seeds=12))
    verdict = one(runs[(runs["heads"] == 1) == (runs["seed"] < 6)], margin=0.01)
    assert verdict.answer == "every_step_helps"
    assert "unpaired" in how_sure(verdict)
    assert "no two arms share two seeds" in " ".join(map(str, verdict.findings))


def test_a_rate_for_each_arm_is_one_experiment_beside_the_shared_rate(make_runs: MakeRuns, noisy: Noisy) -> None:
    shared = make_runs(noisy({1: 1.9, 8: 1.9}))
    tuned = make_runs(noisy({1: 1.88, 8: 1.7})).assign(**{"config.training.learning_rate_from": "exports/rates"})
    tuned["run_id"] += "-tuned"
    tuned["config.training.learning_rate"] = tuned["heads"].map({1: 0.001, 8: 0.003})
    study = judge(pd.concat([shared, tuned], ignore_index=True), Question(margin=0.01))
    by_rate = {verdict.condition["training.learning_rate"]: verdict for verdict in study.verdicts}
    assert by_rate["tuned for each arm"].answer == "every_step_helps"
    assert by_rate["tuned for each arm"].varied == {"training.learning_rate": {1: 0.001, 8: 0.003}}
    assert "learning rate for each arm: 0.001 at 1, 0.003 at 8" in setting(by_rate["tuned for each arm"])
    assert by_rate[0.001].answer == "no_difference"


def test_what_may_vary_between_arms_may_not_vary_within_one(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy({1: 1.9, 8: 1.8}))
    runs["config.training.warmup_steps"] = runs["heads"]
    assert len(judge(runs, Question(varying=("training.warmup_steps",))).verdicts) == 1
    runs.loc[0, "config.training.warmup_steps"] = 77
    with pytest.raises(AnalysisError, match="heads=1 has 77, 1: one for each arm"):
        judge(runs, Question(varying=("training.warmup_steps",)))


def test_a_control_is_kept_and_each_arm_stands_beside_it(make_runs: MakeRuns, noisy: Noisy) -> None:
    latent = make_runs(noisy({8: 1.95, 32: 1.901, 64: 1.9}, seeds=8)).assign(attention="latent")
    latent = latent.assign(latent_dim=latent["heads"], heads=8, kv_heads=8)
    latent["cache/bytes"] = latent["latent_dim"] * 1024
    control = make_runs(noisy({8: 1.9}, seeds=8, seed=1)).assign(latent_dim=None, run_id=[f"mha{s}" for s in range(8)])
    runs = pd.concat([latent, control.astype(object)], ignore_index=True)
    asked = Question(factor="latent_dim", margin=0.02, control=(("attention", "grouped"),))
    (verdict,) = judge(runs, asked).verdicts
    assert verdict.control is not None
    assert verdict.control.arms[0].pair.size == "beyond"
    assert [b.pair.size for b in verdict.control.arms[1:]] == ["within", "within"]
    assert [b.cache for b in verdict.control.arms] == [1 / 32, 1 / 8, 1 / 4]
    assert verdict.control.sentence == (
        "Beside attention=grouped, within 0.02 nats: latent_dim 32 (0.125 of its cache) and latent_dim 64 (0.25 of "
        "its cache); worse: latent_dim 8 (0.0312 of its cache)."
    )


def latent_beside_heads(make_runs: MakeRuns, noisy: Noisy) -> tuple[pd.DataFrame, pd.DataFrame, Question]:
    latent = make_runs(noisy({8: 1.95, 32: 1.901, 64: 1.9}, seeds=8)).assign(attention="latent")
    latent = latent.assign(latent_dim=latent["heads"], heads=8, kv_heads=8)
    control = make_runs(noisy({8: 1.9}, seeds=8, seed=1)).assign(latent_dim=None, run_id=[f"mha{s}" for s in range(8)])
    return latent, control, Question(factor="latent_dim", margin=0.02, control=(("attention", "grouped"),))


def test_arms_and_control_are_one_family(make_runs: MakeRuns, noisy: Noisy) -> None:
    latent, control, asked = latent_beside_heads(make_runs, noisy)
    (verdict,) = judge(pd.concat([latent, control.astype(object)], ignore_index=True), asked).verdicts
    assert verdict.conclusion is not None
    assert verdict.control is not None
    both = np.column_stack([latent.pivot(index="seed", columns="latent_dim", values="val/loss"), control["val/loss"]])
    together = simultaneous(both)
    shown = {(pair.earlier, pair.later): pair for pair in verdict.conclusion.pairs}
    beside = {pair.later: pair for pair in verdict.conclusion.beside}
    arms = [8, 32, 64]
    for a, b, low in zip(together.earlier, together.later, together.low, strict=True):
        if b < 3:
            assert shown[arms[a], arms[b]].low == low
        else:
            assert beside[arms[a]].high == -low
    assert verdict.conclusion.family == "all 6 pairs of arms and control"
    assert "all 6 pairs of arms and control together" in bullets(verdict)[0]
    alone = judge(latent, replace(asked, control=())).verdicts[0]
    assert alone.conclusion is not None
    assert alone.conclusion.family == "all 3 pairs of arms"


def test_a_control_whose_runs_diverge_is_compared_by_rank(make_runs: MakeRuns, noisy: Noisy) -> None:
    latent, control, asked = latent_beside_heads(make_runs, noisy)
    control.loc[:5, "status"] = "diverged"
    control.loc[:5, "val/loss"] = np.nan
    (verdict,) = judge(pd.concat([latent, control.astype(object)], ignore_index=True), asked).verdicts
    assert verdict.control is not None
    assert (verdict.control.seeds, verdict.control.diverged) == (2, 6)
    assert {beside.pair.by for beside in verdict.control.arms} == {"rank"}


def test_the_sentence_and_every_margin_of_the_strip_agree(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy({1: 1.9, 2: 1.85, 4: 1.845}))
    verdict = one(runs, margin=0.02)
    assert [stretch.answer for stretch in verdict.sensitivity if stretch.holds] == [verdict.answer]
    for stretch in verdict.sensitivity:
        value = stretch.low * 1.5 if stretch.high is None else (stretch.low + stretch.high) / 2
        assert one(runs, margin=value).answer == stretch.answer


def test_unequal_tokens_compare_nothing_until_steps_give_a_common_one(make_runs: MakeRuns, noisy: Noisy) -> None:
    losses = noisy({1: 1.9, 16: 1.95})
    runs = make_runs(losses)
    runs.loc[runs["heads"] == 16, "train/tokens"] = 700_000
    verdict = one(runs, margin=0.01)
    assert verdict.pairs == ()
    assert "unequal numbers of training tokens" in verdict.sentence
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
    assert shown(fair) == ["better"]
    assert one(runs, margin=0.01, allow_unequal_tokens=True).answer == "worse_throughout"


def test_a_mixture_is_judged_apart_and_named(make_runs: MakeRuns, noisy: Noisy) -> None:
    small = make_runs(noisy({1: 1.9, 2: 1.8}))
    large = make_runs(noisy({1: 1.5, 2: 1.5}), **{"config.model.d_model": 256})
    study = judge(pd.concat([small, large]), Question(margin=0.02))
    assert [verdict.condition["model.d_model"] for verdict in study.verdicts] == [128, 256]
    assert [verdict.answer for verdict in study.verdicts] == ["every_step_helps", "no_difference"]
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


def test_a_sweep_over_kv_heads_is_judged_like_one_over_heads(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy({1: 1.9, 2: 1.8, 8: 1.7}))
    runs = runs.assign(kv_heads=runs["heads"], heads=8, **{"config.kv_heads": runs["heads"]})
    verdict = one(runs, factor="kv_heads", margin=0.02)
    assert verdict.answer == "every_step_helps"
    assert verdict.sentence.startswith("More kv-heads help at every step, up to 8 kv-heads")


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
        (lambda runs: runs[runs["heads"] == 1], "only 1 head ran"),
        (lambda runs: runs[runs["seed"] == 0], "no two arms share two seeds"),
        (lambda runs: runs.assign(**{"val/loss": 1.5}), "all seeds of 1, 2 gave the same number"),
        (_without("train/tokens"), "equal training could not be checked"),
        (_without("cache/bytes"), "no frontier over cache/bytes"),
        (lambda runs: runs[["run_id", "status", "seed", "heads", "val/loss"]], "no frontier over"),
        (lambda runs: runs.assign(**{"decode/ms_per_token": np.nan}), "known for 0 arms"),
    ],
    ids=["one arm", "one seed", "no spread", "no tokens", "no cost", "bare", "NaN cost"],
)
def test_a_thin_table_says_what_is_missing_and_still_gives_the_means(
    make_runs: MakeRuns, noisy: Noisy, change: Callable[[pd.DataFrame], pd.DataFrame], says: str
) -> None:
    verdict = one(change(make_runs(noisy({1: 1.9, 2: 1.8}))))
    text = " ".join([verdict.sentence, *bullets(verdict)])
    assert says in " ".join([text, *map(str, verdict.findings)])
    assert verdict.arms["mean"].notna().all()
    assert re.findall(r"\b(nan|None|NaN|inf)\b", text) == []


@pytest.mark.parametrize("margin", [-1.0, float("nan"), float("inf")])
def test_a_number_that_is_no_margin_is_refused(make_runs: MakeRuns, margin: float) -> None:
    with pytest.raises(AnalysisError, match="a margin is a finite number, 0 or more"):
        one(make_runs({1: [1.0]}), margin=margin)


def test_a_margin_of_nothing_judges_directions_alone(make_runs: MakeRuns, noisy: Noisy) -> None:
    verdict = one(make_runs(noisy({1: 1.9, 2: 1.8})), margin=0.0)
    assert verdict.answer == "every_step_helps"
    assert "margin" not in verdict.sentence


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
        "import sys, analysis.verdict, analysis.summary, analysis.compare;"
        "print([name for name in ('torch', 'hydra', 'wandb', 'omegaconf', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"
