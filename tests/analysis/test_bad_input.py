"""What goes wrong with exports, and what is said of it: nothing is judged that should not be, and no run is lost."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.cells import resampled_means
from analysis.findings import AnalysisError
from analysis.load import load, typed
from analysis.question import Question
from analysis.stats import family_p, sign_flip_p, signs_for, smallest_p
from analysis.study import Study, study_of
from analysis.summary import bullets
from analysis.verdict import judge
from tests.analysis.export_maker import curves, write_export

MakeRuns = Callable[..., pd.DataFrame]
Noisy = Callable[..., dict[int, list[float]]]


def studied(folder: Path, runs: pd.DataFrame, steps: pd.DataFrame | None = None) -> Study:
    return study_of(load(write_export(folder, runs, steps)), margin=0.01)


def test_a_thousand_seeds_are_tested_without_overflow_in_little_memory(rng: np.random.Generator) -> None:
    differences = rng.normal(0.1, 1.0, size=(1100, 2))
    signs = signs_for(1100, rng)
    assert sign_flip_p(differences, signs).max() <= 1
    assert family_p(differences, signs).shape == (2,)
    assert smallest_p(1100) == pytest.approx(0.0, abs=1e-300)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    resampled_means(pd.DataFrame(rng.normal(size=(1000, 5))), 10_000, rng)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # KiB
    assert grown < 500 * 1024


@pytest.mark.parametrize("first", [2**53, 2**63 - 4])
def test_large_seeds_stay_apart(make_runs: MakeRuns, first: int) -> None:
    runs = make_runs({1: [1.9, 1.91, 1.92], 2: [1.8, 1.81, 1.82]})
    runs["seed"] = runs["seed"] + first
    (verdict,) = judge(runs).verdicts
    assert verdict.coverage.used == 6
    assert verdict.cells.values.index.tolist() == [first, first + 1, first + 2]


def test_a_seed_that_fits_no_integer_is_refused(make_runs: MakeRuns) -> None:
    runs = make_runs({1: [1.9], 2: [1.8]}).astype({"seed": object})
    runs.loc[0, "seed"] = 2**63
    with pytest.raises(AnalysisError, match="9223372036854775808, which does not fit 64 bits"):
        judge(runs)


def test_a_run_copied_under_other_seeds_is_found_by_its_curve_and_refused(
    make_runs: MakeRuns, noisy: Noisy, tmp_path: Path
) -> None:
    runs = make_runs(noisy({1: 1.9, 2: 1.8}, seeds=3))
    copied = runs.assign(seed=runs["seed"] + 3, run_id=runs["run_id"] + "-copy")
    table = pd.concat([runs, copied], ignore_index=True)
    study = studied(tmp_path / "some", table, curves(table))
    assert study.refusal is not None
    assert "heads1-seed0 (seed 0), heads1-seed0-copy (seed 3)" in study.refusal
    assert studied(tmp_path / "honest", runs, curves(runs)).refusal is None


@pytest.mark.parametrize(("heads", "says"), [(0, r"heads1-seed0 \(0\)"), (-4, r"heads1-seed0 \(-4\)")])
def test_heads_that_no_model_has_are_refused_by_name(make_runs: MakeRuns, heads: int, says: str) -> None:
    runs = make_runs({1: [1.9], 2: [1.8]})
    runs.loc[0, "heads"] = heads
    with pytest.raises(AnalysisError, match=says):
        typed(runs, "heads", "val/loss")


def test_runs_without_heads_are_named_and_the_others_judged(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy({1: 1.9, 2: 1.8}))
    runs.loc[0, "heads"] = None
    (verdict,) = judge(runs).verdicts
    assert verdict.coverage.unplaced == ("heads1-seed0",)


def test_one_run_id_twice_is_refused(make_runs: MakeRuns, tmp_path: Path) -> None:
    runs = make_runs({1: [1.9, 1.91], 2: [1.8, 1.82]})
    folder = write_export(tmp_path / "some", runs.assign(run_id=["a", "b", "c", "a"]))
    with pytest.raises(AnalysisError, match="run_id a stands in more than one row"):
        load(folder)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t[t["seed"] == 0], "Not settled: no two arms share two seeds."),
        (lambda t: t[t["heads"] == 2], "Not settled: only 2 heads ran."),
        (lambda t: t.assign(**{"val/loss": t["val/loss"].where(t["heads"] == 1, np.nan)}), "2 heads are worse than 1"),
        (lambda t: t.assign(**{"val/loss": t["val/loss"].where(t["heads"] == 1, np.inf)}), "2 heads are worse than 1"),
        (lambda t: t.assign(status=t["status"].where(t["heads"] == 1, "failed")), "Not settled: only 1 head ran."),
    ],
    ids=["one seed", "one arm", "NaN in one arm", "infinite in one arm", "one arm failed"],
)
def test_a_thin_study_says_so(
    make_runs: MakeRuns, noisy: Noisy, tmp_path: Path, change: Callable[[pd.DataFrame], pd.DataFrame], sentence: str
) -> None:
    study = studied(tmp_path / "some", change(make_runs(noisy({1: 1.9, 2: 1.8}))))
    (verdict,) = study.verdicts
    assert sentence in verdict.sentence
    assert f"of {verdict.coverage.planned} planned runs" in bullets(verdict)[0] or not verdict.pairs
    counted = verdict.coverage.used + len(verdict.coverage.left_out)
    assert counted == verdict.coverage.planned


def test_no_number_in_any_arm_is_a_refusal_with_every_name(make_runs: MakeRuns, tmp_path: Path) -> None:
    study = studied(tmp_path / "some", make_runs({1: [np.nan, np.inf], 2: [np.nan, np.nan]}))
    assert study.refusal is not None
    assert study.refusal.count("finished without a finite val/loss") == 4


def test_two_models_in_one_export_are_judged_apart(make_runs: MakeRuns, noisy: Noisy, tmp_path: Path) -> None:
    small, large = make_runs(noisy({1: 1.9, 2: 1.8})), make_runs(noisy({1: 1.5, 2: 1.6}))
    large = large.assign(**{"config.model.d_model": 256, "run_id": large["run_id"] + "-large"})
    study = studied(tmp_path / "some", pd.concat([small, large], ignore_index=True))
    assert [verdict.answer for verdict in study.verdicts] == ["every_step_helps", "worse_throughout"]
    assert [text.partition(":")[0] for text in study.opening] == ["With model.d_model=128", "With model.d_model=256"]


def test_an_unfinished_study_is_judged_on_what_is_there_and_says_what_is_not(make_runs: MakeRuns, noisy: Noisy) -> None:
    runs = make_runs(noisy({1: 1.9, 2: 1.8, 4: 1.7}))
    runs.loc[(runs["heads"] == 4) & (runs["seed"] > 2), "status"] = "not_run"
    (verdict,) = judge(runs, Question(margin=0.01)).verdicts
    assert "15 of 18 planned runs counted" in bullets(verdict)[0]
    assert {pair.seeds for pair in verdict.pairs} == {3, 6}
