"""Each mistake on runs whose right answer is known."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.compare import LEARNING_RATE
from analysis.findings import AnalysisError
from analysis.load import load
from analysis.pitfalls import (
    best_of_seeds,
    dropped_failures,
    lines,
    not_paired,
    not_significant_so_alike,
    one_plateau_so_level,
    one_seed,
    pitfalls_of,
    same_time,
    sd_over_n,
    shared_learning_rate,
    winner_picked_from_the_data,
)
from analysis.question import Question
from analysis.study import study_of
from analysis.verdict import Verdict, judge
from tests.analysis.export_maker import write_export

MakeRuns = Callable[..., pd.DataFrame]
Noisy = Callable[..., dict[int, list[float]]]


def verdict_of(runs: pd.DataFrame) -> Verdict:
    return judge(runs).verdicts[0]


def test_one_seed_names_the_winner_that_the_seed_makes(make_runs: MakeRuns) -> None:
    pitfall = one_seed(verdict_of(make_runs({1: [1.0, 1.3, 1.3], 8: [1.1, 1.2, 1.2]})))
    assert pitfall.misleads
    assert "with seed 0 alone, heads=1 is the best" in pitfall.wrong
    assert "8 (2 of 3 seeds), 1 (1 of 3 seeds)" in pitfall.wrong
    assert one_seed(verdict_of(make_runs({1: [1.3, 1.3, 1.4], 8: [1.1, 1.2, 1.2]}))).misleads is False


def test_the_best_run_may_belong_to_an_arm_that_is_worse_on_average(make_runs: MakeRuns) -> None:
    pitfall = best_of_seeds(verdict_of(make_runs({1: [0.9, 1.5, 1.5], 8: [1.1, 1.2, 1.2]})))
    assert pitfall.misleads
    assert "heads=1 wins with 0.9000" in pitfall.wrong
    # Best minus mean: 0.4 and 0.0667, 0.2333 on average.
    assert "looks 0.23 better than its mean" in pitfall.wrong


def test_sd_over_n_is_root_n_and_more_too_narrow(make_runs: MakeRuns) -> None:
    # Differences 0, 0, 0.03, 0.03: mean 0.015, SD 0.0173; 1.96 SD / 4 = 0.0085, but t(3 df) SD / 2 = 0.0276.
    runs = make_runs({1: [1.0, 1.1, 1.2, 1.3], 8: [1.0, 1.1, 1.23, 1.33]})
    pitfall = sd_over_n(verdict_of(runs))
    assert pitfall.misleads
    assert pitfall.wrong == "1 of 1 differences leave out zero, with intervals 3.2 times too narrow"
    assert pitfall.right.startswith("0 of 1 do")


def test_pairing_sees_what_seeds_hide(make_runs: MakeRuns) -> None:
    hidden = np.array([1.0, 1.2, 1.4, 1.6, 1.8, 2.0])
    runs = make_runs({1: list(hidden), 8: list(hidden - 0.02 + [0.001, 0, 0, 0.001, 0, 0])})
    pitfall = not_paired(verdict_of(runs))
    assert pitfall.misleads
    assert pitfall.wrong.startswith("0 of 1 differences are seen")
    assert pitfall.right.startswith("1 of 1 are")


def test_a_shared_learning_rate_can_turn_the_answer(make_runs: MakeRuns, noisy: Noisy, tmp_path: Path) -> None:
    low = make_runs(noisy({1: 1.9, 8: 1.9}, seeds=8))
    high = make_runs(noisy({1: 1.95, 8: 1.85}, seeds=8)).assign(**{LEARNING_RATE: 0.01})
    high["run_id"] += "-high"
    folder = write_export(tmp_path / "some", pd.concat([low, high], ignore_index=True))
    pitfall = shared_learning_rate(study_of(load(folder), margin=0.02))
    assert pitfall.misleads
    assert "at 0.001: No difference that matters" in pitfall.wrong
    assert "More heads are better" in pitfall.right


def test_equal_time_favours_the_fast(make_runs: MakeRuns, tmp_path: Path) -> None:
    runs = make_runs({1: [1.2, 1.2], 8: [1.0, 1.0]})
    seconds = {1: 1.0, 8: 3.0}  # a step of eight heads takes three times as long
    steps = pd.DataFrame(
        {"run_id": run, "step": s, "time": 1e9 + s * seconds[heads], "val/loss": loss + 2 / s}
        for run, heads, loss in zip(runs["run_id"], runs["heads"], runs["val/loss"], strict=True)
        for s in range(1, 7)
    )
    export = load(write_export(tmp_path / "some", runs, steps))
    pitfall = same_time(verdict_of(export.runs), export)
    assert pitfall.misleads
    assert pitfall.wrong == "after 5 s, heads=1 is the best; but the arms were then at step 6 (1), 2 (8) on average"
    without = load(write_export(tmp_path / "bare", runs))
    assert same_time(verdict_of(runs), without).misleads is None


def test_dropped_failures_are_named(make_runs: MakeRuns) -> None:
    runs = make_runs({1: [1.2, 1.2, 1.2], 8: [1.0, 1.0, 1.0]})
    runs.loc[5, ["status", "val/loss"]] = "diverged", np.nan
    pitfall = dropped_failures(verdict_of(runs))
    assert pitfall.misleads
    assert pitfall.wrong == "heads=8 is the best with a mean of 1.0000"
    assert "missing because of their result: heads=8 seed 2 (diverged)" in pitfall.right
    assert dropped_failures(verdict_of(make_runs({1: [1.0], 8: [1.1]}))).misleads is None


def test_every_mistake_is_shown_or_says_why_it_cannot_be(make_runs: MakeRuns, tmp_path: Path) -> None:
    study = study_of(load(write_export(tmp_path / "some", make_runs({1: [1.0], 8: [1.1]}))))
    shown = pitfalls_of(study)
    assert len(shown[""]) == 10
    assert {pitfall.misleads for pitfall in shown[""]} == {None}
    text = "\n".join(lines(shown))
    assert text.count("cannot be shown here") == 10
    empty = study_of(load(write_export(tmp_path / "none", make_runs({1: [1.0]}).iloc[:0])))
    with pytest.raises(AnalysisError, match="there is no right conclusion"):
        pitfalls_of(empty)


def test_wrong_sentences_stand_beside_the_engines(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy({1: 1.9, 2: 1.902, 4: 1.91}, sd=0.004))
    (verdict,) = judge(runs, Question(margin=0.01)).verdicts
    level = one_plateau_so_level(verdict)
    assert "from 1 to 2 the 90% interval lies within the margin: 'it levels off'" in level.wrong
    assert level.misleads is (verdict.answer not in ("helps_up_to", "no_difference"))
    alike = not_significant_so_alike(verdict)
    assert "so they are 'the same'" in alike.wrong
    picked = winner_picked_from_the_data(verdict)
    assert picked.wrong.startswith("4 differs from 1 by +0.0")


def test_every_experiment_of_a_study_is_shown(make_runs: MakeRuns, noisy: Noisy, tmp_path: Path) -> None:
    small, large = make_runs(noisy({1: 1.9, 2: 1.8})), make_runs(noisy({1: 1.5, 2: 1.6}))
    large = large.assign(**{"config.model.d_model": 256, "run_id": large["run_id"] + "-large"})
    study = study_of(load(write_export(tmp_path / "some", pd.concat([small, large], ignore_index=True))))
    text = "\n".join(lines(pitfalls_of(study)))
    assert "With model.d_model=128" in text
    assert "With model.d_model=256" in text
