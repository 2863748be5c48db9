import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.appendix import other_tests, page_trend, unpaired_permutation_p

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
