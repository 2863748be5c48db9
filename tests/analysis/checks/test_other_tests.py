"""The mixed model, beside the formulas that it must agree with."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.checks.other_tests import mixed_model, other_tests, page_trend, unpaired_permutation_p
from analysis.findings import AnalysisError

Rng = np.random.Generator


@pytest.fixture
def values(rng: Rng) -> pd.DataFrame:
    seeds = rng.normal(0, 0.02, size=(8, 1))
    noise = rng.normal(0, 0.01, size=(8, 3))
    return pd.DataFrame(seeds + noise + np.array([1.9, 1.91, 1.93]), columns=pd.Index([1, 2, 4]))


def test_other_tests_are_scipys(values: pd.DataFrame, rng: Rng) -> None:
    table = other_tests(values, rng).set_index("later")
    for arm in (2, 4):
        paired = stats.ttest_rel(values[arm], values[1])
        unpaired = stats.ttest_ind(values[arm], values[1], equal_var=False)
        assert table.loc[arm, "p_t"] == pytest.approx(float(paired.pvalue))  # pyright: ignore
        assert table.loc[arm, "p_welch"] == pytest.approx(float(unpaired.pvalue))  # pyright: ignore
        assert table.loc[arm, "difference"] == pytest.approx(float((values[arm] - values[1]).mean()))
    assert (table["p_t_holm"] >= table["p_t"]).all()
    assert (table["p_flips_family"] >= table["p_flips"]).all()


def test_pages_trend_sees_an_order_and_is_told_both_ways(values: pd.DataFrame) -> None:
    trend = page_trend(values, "val/loss")
    assert trend is not None
    better, worse = trend
    assert worse < 0.05 < better
    assert page_trend(values[[1, 2]], "val/loss") is None


def test_dealing_runs_anew_finds_what_is_there_and_nothing_else(rng: Rng) -> None:
    a = rng.normal(size=8)
    assert unpaired_permutation_p(a, a + 5, rng) < 0.01
    assert unpaired_permutation_p(a, a, rng) > 0.5
    assert unpaired_permutation_p(a[:1], a, rng) == 1.0


def test_runs_without_any_spread_or_partner_give_no_row(rng: Rng) -> None:
    assert other_tests(pd.DataFrame({1: [1.0, np.nan], 2: [np.nan, 1.0]}), rng).empty
    assert other_tests(pd.DataFrame({1: [1.0, 1.0], 2: [1.0, 1.0]}), rng)["mixed"].isna().all()


def test_with_every_run_there_it_is_the_pooled_paired_comparison() -> None:
    rng = np.random.default_rng(0)
    values = np.array([1.5, 1.52, 1.55]) + 0.01 * rng.normal(size=(8, 3)) + 0.02 * rng.normal(size=(8, 1))
    found = mixed_model(values, [1, 2, 4])
    rest = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    sd = np.sqrt((rest**2).sum() / 14)
    assert found.residual_sd == pytest.approx(sd, rel=1e-3)
    pair = found.pairs[1]
    assert (pair.earlier, pair.later) == (1, 4)
    assert pair.difference == pytest.approx(values[:, 2].mean() - values[:, 0].mean())
    assert pair.high - pair.low == pytest.approx(2 * stats.t.ppf(0.975, 14) * sd * np.sqrt(2 / 8), rel=1e-3)


def test_seeds_that_miss_an_arm_take_part() -> None:
    rng = np.random.default_rng(1)
    values = np.array([1.5, 1.6]) + 0.01 * rng.normal(size=(8, 2)) + 0.05 * rng.normal(size=(8, 1))
    values[0, 0] = np.nan
    found = mixed_model(values, ["MHA", "MQA"])
    assert found.runs == 15
    assert found.pairs[0].low < 0.1 < found.pairs[0].high
    assert found.seed_sd > found.residual_sd


@pytest.mark.parametrize("values", [np.ones((1, 2)), np.ones((4, 2)), np.array([[1.0, np.nan], [2.0, np.nan]])])
def test_too_few_or_equal_runs_are_refused(values: np.ndarray) -> None:
    with pytest.raises(AnalysisError):
        mixed_model(values, [1, 2])
