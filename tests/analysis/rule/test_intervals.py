"""Simultaneous intervals: they hold together, belong to their p, and stand odd tables."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from analysis.findings import AnalysisError
from analysis.rule.critical import errors_of, lognormal, normal, pair_indices, reference_for
from analysis.rule.intervals import simultaneous


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(4)


def false_share(values: np.ndarray, paired: bool = True) -> float:
    found = simultaneous(values, paired)
    return float(((found.low > 0) | (found.high < 0)).any(axis=-1).mean())


@pytest.mark.parametrize("n", [4, 6, 10])
@pytest.mark.parametrize("wide", [1.0, 4.0])
@pytest.mark.parametrize("noise", [normal, lognormal])
def test_all_intervals_hold_together(rng: np.random.Generator, n: int, wide: float, noise) -> None:
    values = noise(rng, (2000, n, 5)) + rng.normal(size=(2000, n, 1))
    values[..., -1] *= wide
    assert false_share(values) < 0.05 + 0.01


def test_they_hold_where_runs_are_missing_and_where_no_seed_is_shared(rng: np.random.Generator) -> None:
    values = rng.normal(size=(2000, 6, 5))
    values[:, 0, 1] = values[:, 1, 3] = values[:, 0, 4] = np.nan
    assert false_share(values) < 0.06
    assert false_share(values, paired=False) < 0.06


def test_p_is_at_most_five_percent_exactly_where_the_interval_leaves_the_bound_out(rng: np.random.Generator) -> None:
    found = simultaneous(rng.normal(size=(300, 6, 4)) + np.array([0, 0.8, 1.6, 3.0]))
    assert np.array_equal(found.p <= 0.05, (found.low > 0) | (found.high < 0))
    beyond = (found.low > 1) | (found.high < -1)
    assert np.array_equal(found.p_beyond(1.0) <= 0.05, beyond)
    assert np.array_equal(found.p_within(3.0) <= 0.05, (found.low > -3) & (found.high < 3))
    assert (found.p_within(0.0) == 1).all()
    assert beyond.any()
    assert not beyond.all()


def test_adding_to_a_seed_or_turning_the_sign_changes_nothing_else(rng: np.random.Generator) -> None:
    values = rng.normal(size=(6, 4))
    found = simultaneous(values)
    moved = simultaneous(values + rng.normal(size=(6, 1)) * 100)
    turned = simultaneous(-values)
    np.testing.assert_allclose(moved.mean, found.mean)
    np.testing.assert_allclose(turned.low, -found.high)
    assert turned.guarded == found.guarded


def test_a_study_alone_gets_the_interval_that_it_gets_among_others(rng: np.random.Generator) -> None:
    values = rng.normal(size=(5, 6, 4))
    values[2, 0, 1] = np.nan
    together = simultaneous(values)
    for index, study in enumerate(values):
        np.testing.assert_allclose(simultaneous(study).low, together.low[index])


def test_the_order_of_seeds_does_not_matter(rng: np.random.Generator) -> None:
    values = rng.normal(size=(6, 4))
    values[0, 1] = np.nan
    np.testing.assert_allclose(simultaneous(values).low, simultaneous(values[::-1]).low)


@pytest.mark.parametrize(("n", "k"), [(0, 3), (1, 3), (6, 1)])
def test_nothing_is_shown_where_nothing_can_be_compared(n: int, k: int) -> None:
    found = simultaneous(np.ones((n, k)))
    assert np.isinf(found.low).all()
    assert (found.p == 1).all()


def test_two_seeds_show_only_what_is_very_clear(rng: np.random.Generator) -> None:
    values = rng.normal(size=(2000, 2, 5))
    assert false_share(values) < 0.06
    clear = simultaneous(rng.normal(size=(2, 3)) * 0.001 + np.array([0.0, 1.0, 2.0]))
    assert (clear.low > 0).all()


def test_arms_that_share_under_two_seeds_are_left_open_and_burden_no_other() -> None:
    values = np.random.default_rng(0).normal(size=(8, 3))
    values[1:, 2] = np.nan
    found = simultaneous(values)
    assert np.isfinite(found.low).tolist() == [True, False, False]
    np.testing.assert_allclose(found.low[0], simultaneous(values[:, :2]).low[0])


def test_identical_losses_differ_by_nothing_and_constant_differences_by_themselves() -> None:
    same = simultaneous(np.repeat(np.arange(6.0)[:, None], 3, axis=1))
    assert (same.low == 0).all()
    assert (same.high == 0).all()
    assert (same.p == 1).all()
    shifted = simultaneous(np.arange(6.0)[:, None] + np.array([0.0, 0.0, 1.0]))
    assert shifted.low.tolist() == [0, 1, 1]
    assert shifted.p[1] < 0.01


def test_one_lucky_small_spread_cannot_make_an_interval_tiny(rng: np.random.Generator) -> None:
    values = rng.normal(size=(6, 4))
    values[:, 1] = values[:, 0] + 0.5
    found = simultaneous(values)
    assert found.sd[0] == pytest.approx(0, abs=1e-9)
    assert found.low[0] < 0 < found.high[0]


def test_unequal_spreads_and_skew_raise_the_guard(rng: np.random.Generator) -> None:
    alike = rng.normal(size=(500, 10, 5))
    wide = alike * np.array([1, 1, 1, 1, 4.0])
    assert simultaneous(alike).guarded.mean() < 0.35
    assert simultaneous(wide).guarded.mean() > 0.9
    assert simultaneous(lognormal(rng, (500, 10, 5))).guarded.mean() > 0.9


def test_infinite_values_are_refused() -> None:
    with pytest.raises(AnalysisError, match="diverged"):
        simultaneous(np.array([[1.0, np.inf], [1.0, 2.0]]))


def test_a_thousand_pairs_on_a_thousand_seeds_stay_within_half_a_gibibyte(rng: np.random.Generator) -> None:
    values = rng.normal(size=(1000, 46))  # 1,035 pairs of arms
    tracemalloc.start()
    found = simultaneous(values, resamples=100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.low.shape == (1035,)
    assert np.isfinite(found.low).all()
    assert peak < 500 * 2**20


def test_more_than_a_thousand_seeds_overflow_nothing(rng: np.random.Generator) -> None:
    found = simultaneous(rng.normal(size=(2500, 3)) + np.array([0, 0, 0.5]), resamples=500)
    assert ((found.low > 0) == [False, True, True]).all()


def test_welch_errors_are_those_of_the_textbook(rng: np.random.Generator) -> None:
    values = rng.normal(size=(9, 2)) * np.array([1.0, 5.0])
    values[5:, 0] = np.nan
    first, second = values[:5, 0], values[:, 1]
    error = errors_of(values[None], paired=False).error[0, 0]
    assert error >= np.sqrt(first.var(ddof=1) / 5 + second.var(ddof=1) / 9) - 1e-12


def test_more_seeds_never_need_a_larger_critical_value() -> None:
    values = [reference_for(np.ones((n, 5), dtype=bool), True) for n in (4, 6, 10, 20)]
    found = [reference.critical(0.05) for reference in values if reference is not None]
    assert found == sorted(found, reverse=True)
    assert len(pair_indices(5)[0]) == 10
