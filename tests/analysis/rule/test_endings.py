"""Diverged runs are outcomes: compared by rank and by rate, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from analysis.rule.answer import judge_many
from analysis.rule.intervals import compare_ranks, rate_difference_p, rate_of


def test_a_diverged_run_is_worse_than_any_number_and_no_worse_than_another() -> None:
    values = np.array([[1.0, np.nan], [np.nan, np.nan], [np.nan, 9.0], [1.0, 2.0]])
    ranks = compare_ranks(values, np.isnan(values))
    assert (ranks.worse[0], ranks.better[0]) == (2, 1)


def test_a_run_that_is_only_missing_counts_for_nothing() -> None:
    values = np.array([[1.0, np.nan], [1.0, np.nan], [1.0, 2.0]])
    diverged = np.array([[False, True], [False, False], [False, False]])
    ranks = compare_ranks(values, diverged)
    assert (ranks.worse[0], ranks.better[0]) == (2, 0)


def test_the_sign_test_is_exact_and_pays_for_every_pair() -> None:
    values = np.ones((12, 3))
    values[:, 2] = np.nan
    ranks = compare_ranks(values, np.isnan(values))
    assert ranks.p[1] == pytest.approx(3 * stats.binomtest(12, 12).pvalue)
    assert ranks.p[0] == 1
    assert ranks.share == pytest.approx(1 / 3)


def test_pairs_without_a_divergence_spend_only_what_is_left() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1, 8, 4))
    diverged = np.zeros(values.shape, dtype=bool)
    diverged[0, 0, 3] = True
    judged = judge_many(np.where(diverged, np.nan, values), 0.0, diverged)
    assert judged.intervals.share[0] == pytest.approx(0.5)
    alone = judge_many(values[:, :, :3], 0.0)
    assert judged.intervals.critical[0] > alone.intervals.critical[0]


def test_rates_have_exact_intervals_and_an_exact_p() -> None:
    found = rate_of(0, 10)
    assert (found.low, found.high) == (0.0, pytest.approx(stats.beta.ppf(0.975, 1, 10)))
    assert rate_of(10, 10).high == 1.0
    table = [[8, 12], [0, 20]]
    expected = stats.fisher_exact(table).pvalue  # type: ignore[attr-defined]
    assert rate_difference_p(rate_of(8, 20), rate_of(0, 20)) == pytest.approx(expected)
    assert rate_of(3, 10, arms=5).high > rate_of(3, 10).high
