import doctest
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis import arms as module
from analysis.arms import arms, interquartile_mean, matched, matching_findings, spread_findings
from analysis.cells import cells
from analysis.load import typed

MakeRuns = Callable[..., pd.DataFrame]
Rng = np.random.Generator


def of(runs: pd.DataFrame, rng: Rng) -> pd.DataFrame:
    return arms(cells(typed(runs, "heads", "val/loss"), "heads", "val/loss"), rng)


def row_of(table: pd.DataFrame, arm: int) -> dict[str, float]:
    return {str(name): float(table.at[arm, name]) for name in table.columns}  # pyright: ignore[reportArgumentType]


def test_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(module).failed == 0


def test_an_arm_by_hand(make_runs: MakeRuns, rng: Rng) -> None:
    row = row_of(of(make_runs({4: [1.0, 2.0, 3.0, 10.0]}), rng), 4)
    interval = stats.ttest_1samp([1.0, 2.0, 3.0, 10.0], 0).confidence_interval()
    assert (row["n"], row["mean"], row["iqm"], row["best"], row["worst"]) == (4, 4.0, 2.5, 1.0, 10.0)
    assert row["sd"] == pytest.approx(np.sqrt(50 / 3))
    assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high))
    assert 1.0 <= row["iqm_low"] < 2.5 < row["iqm_high"] <= 10.0


def test_one_seed_has_a_mean_and_no_interval(make_runs: MakeRuns, rng: Rng) -> None:
    row = row_of(of(make_runs({4: [1.5]}), rng), 4)
    assert row["mean"] == 1.5
    assert all(np.isnan(row[name]) for name in ("sd", "low", "high", "iqm_low", "iqm_high"))


def test_interquartile_mean_leaves_out_a_quarter_at_each_end() -> None:
    assert interquartile_mean(np.array([9.0, 1, 2, 3, 4, -9, 5, 100])) == pytest.approx(np.mean([2, 3, 4, 5]))


def test_costs_stand_beside_and_a_cost_nobody_measured_stays_missing(make_runs: MakeRuns, rng: Rng) -> None:
    runs = make_runs({1: [1.9, 1.9], 2: [1.8, 1.8]})
    runs["decode/ms_per_token"] = [1.0, 3.0, np.nan, np.nan]
    table = of(runs, rng)
    assert table["decode/ms_per_token"].tolist() == pytest.approx([2.0, np.nan], nan_ok=True)
    assert "memory/peak_bytes" not in table


def test_rows_that_are_not_matched_to_the_reference_are_marked(make_runs: MakeRuns, rng: Rng) -> None:
    runs = make_runs({1: [1.9, 1.9], 4: [1.8, 1.8]})
    runs.loc[runs["heads"] == 4, "cost/parameters"] *= 2
    ratios = matched(of(runs, rng), 1)
    assert ratios["cost/parameters"].tolist() == [1.0, 2.0]
    texts = [finding.text for finding in matching_findings(ratios)]
    assert texts == [
        "cost/parameters is not matched to the reference (4: x2)",
        "cost/flops_per_token, cache/bytes are matched within 1% over all arms",
    ]


def test_arms_that_scatter_unevenly_or_not_at_all_are_named() -> None:
    assert spread_findings(pd.DataFrame({"sd": [0.01, 0.02]}, index=[1, 2])) == []
    (uneven,) = spread_findings(pd.DataFrame({"sd": [0.01, 0.04]}, index=[1, 2]))
    assert "0.01 at 1 and 0.04 at 2" in uneven.text
    (still,) = spread_findings(pd.DataFrame({"sd": [0.01, 0.0]}, index=[1, 2]))
    assert "all seeds of 2 gave the same number" in still.text
