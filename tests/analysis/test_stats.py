import doctest
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from analysis import stats as module
from analysis.stats import (
    bca_interval,
    beyond_margin_p,
    counts,
    draws,
    every_sign,
    family_p,
    holm,
    moments,
    percentile_interval,
    random_signs,
    sign_flip_p,
    signs_for,
    t_interval,
)

Rng = np.random.Generator


def test_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(module).failed == 0


def test_t_interval_is_scipys(rng: Rng) -> None:
    d = rng.normal(0.3, 1, size=(9, 2))
    low, high = t_interval(d, 0.95)
    for c in range(2):
        expected = stats.ttest_1samp(d[:, c], 0).confidence_interval(0.95)
        assert (low[c], high[c]) == pytest.approx((expected.low, expected.high))


def test_a_missing_pair_counts_for_nothing(rng: Rng) -> None:
    d = rng.normal(size=(7, 2))
    holed = d.copy()
    holed[3, 1] = np.nan
    without = np.delete(d, 3, axis=0)
    assert moments(holed)[0].tolist() == [7, 6]
    for of_holed, of_without in zip(t_interval(holed, 0.95), t_interval(without, 0.95), strict=True):
        assert of_holed[1] == pytest.approx(of_without[1])
    assert sign_flip_p(holed, every_sign(7))[1] == sign_flip_p(without, every_sign(6))[1]


def test_p_against_the_margin_is_the_paired_t_test_where_the_margin_is_zero(rng: Rng) -> None:
    d = rng.normal(0.5, 1, size=(8, 3))
    assert beyond_margin_p(d, 0.0) == pytest.approx(stats.ttest_1samp(d, 0)[1])


def test_p_against_the_margin_falls_below_alpha_exactly_where_the_interval_clears_it(rng: Rng) -> None:
    d = rng.normal(1.0, 1, size=(500, 8, 1))
    low, high = t_interval(d, 0.95)
    clears = (low > 0.3) | (high < -0.3)
    assert 0.1 < clears.mean() < 0.9
    assert ((beyond_margin_p(d, 0.3) <= 0.05) == clears).all()


def test_differences_that_do_not_scatter_lie_beyond_or_within_the_margin_for_certain() -> None:
    d = np.array([[0.5, 0.25]] * 6)
    assert beyond_margin_p(d, 0.375).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("n", [4, 7])
def test_sign_flip_p_is_scipys_exact_permutation_test(n: int, rng: Rng) -> None:
    a, b = rng.normal(0.4, 1, size=(2, n))
    expected = stats.permutation_test(
        (a, b), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples", vectorized=True
    )
    assert sign_flip_p((a - b)[:, None], every_sign(n)) == pytest.approx([expected.pvalue])


def test_sign_flip_p_by_hand() -> None:
    # |sum| of +-1 +-2 +-4: 7 5 3 1 1 3 5 7; the seen 5 (1 - 2 - 4) is reached by four of eight.
    assert sign_flip_p(np.array([[1.0], [-2.0], [-4.0]]), every_sign(3)).tolist() == [0.5]


def test_equal_differences_tie_with_their_flips_despite_rounding() -> None:
    # Three of 0.1 and one of -0.1 are as extreme as any other single sign: (1 + 4) of 8 half-flips.
    d = np.array([[0.1], [0.1], [0.1], [-0.1]])
    assert sign_flip_p(d, every_sign(4)).tolist() == [5 / 8]


def test_tenths_tie_as_whole_numbers_do(rng: Rng) -> None:
    whole = rng.integers(-5, 6, size=(200, 7, 1)).astype(float)
    assert (sign_flip_p(whole / 10, every_sign(7)) == sign_flip_p(whole, every_sign(7))).all()
    assert (family_p(whole / 10, every_sign(7)) == family_p(whole, every_sign(7))).all()


def test_holm_is_statsmodels(rng: Rng) -> None:
    p = rng.uniform(size=(12, 5)) ** 3
    p[0] = [0.01, 0.01, 0.04, 1.0, 0.02]
    for row, adjusted in zip(p, holm(p), strict=True):
        assert adjusted == pytest.approx(multipletests(row, method="holm")[1])


def test_a_contrast_that_is_not_tested_burdens_no_other() -> None:
    p = np.array([0.02, 0.001, 0.03])
    tested = np.array([True, False, True])
    assert holm(p, tested).tolist() == [0.04, 1.0, 0.04]


def brute_force_family_p(d: np.ndarray) -> list[float]:
    """Step-down max-T, written out: for each contrast the flips whose largest |t| among the rest reaches its own."""

    def t(x: np.ndarray) -> np.ndarray:
        return np.abs(x.mean(axis=0) / (x.std(axis=0, ddof=1) / np.sqrt(len(x))))

    seen = t(d)
    order = np.argsort(-seen)
    flips = [np.array(signs)[:, None] * d for signs in product([1, -1], repeat=len(d))]
    p, floor = [0.0] * d.shape[1], 0.0
    for place, contrast in enumerate(order):
        rest = order[place:]
        floor = max(floor, float(np.mean([t(x)[rest].max() >= seen[contrast] - 1e-9 for x in flips])))
        p[contrast] = floor
    return p


def test_family_p_is_the_step_down_written_out(rng: Rng) -> None:
    for _ in range(5):
        d = rng.normal([0, 0.5, 1.2, 0.2], 1, size=(7, 4))
        assert family_p(d, every_sign(7)) == pytest.approx(brute_force_family_p(d))


def test_family_p_of_one_contrast_is_its_own_p_and_never_below_it_for_several(rng: Rng) -> None:
    d = rng.normal(0.3, 1, size=(40, 8, 4))
    signs = every_sign(8)
    assert (family_p(d[..., :1], signs) == sign_flip_p(d[..., :1], signs)).all()
    assert (family_p(d, signs) >= sign_flip_p(d, signs)).all()


def test_six_pairs_that_agree_reach_the_smallest_p_whatever_the_number_of_contrasts() -> None:
    d = np.array([[1.0, 2.0, 3.0, 1.0]]) + np.linspace(0, 0.1, 6)[:, None]
    assert family_p(d, every_sign(6)).tolist() == [0.03125] * 4
    assert holm(sign_flip_p(d, every_sign(6))).tolist() == [0.125] * 4


def test_many_pairs_use_random_flips_that_come_near_the_exact_p_and_never_give_zero(rng: Rng) -> None:
    d = rng.normal(0.35, 1, size=(12, 2))
    near = sign_flip_p(d, random_signs(12, 20_000, rng))
    assert near == pytest.approx(sign_flip_p(d, every_sign(12)), abs=0.01)
    certain = np.ones((30, 1)) + rng.normal(0, 0.01, size=(30, 1))
    assert sign_flip_p(certain, signs_for(30, rng, flips=999)).tolist() == [1 / 1000]
    assert len(signs_for(16, rng)) == 2**15


def test_every_sign_holds_each_flip_once_up_to_its_mirror_image() -> None:
    signs = every_sign(5)
    both = {tuple(row) for row in signs} | {tuple(-row) for row in signs}
    assert len(signs) == 16
    assert both == set(product([1.0, -1.0], repeat=5))
    assert signs[0].tolist() == [1.0] * 5


@pytest.mark.parametrize(
    ("method", "ours"), [("percentile", percentile_interval), ("BCa", bca_interval)], ids=["percentile", "BCa"]
)
def test_bootstrap_intervals_are_scipys(method: str, ours: Callable[..., Any], rng: Rng) -> None:
    samples = rng.exponential(size=(2, 12))
    low, high = ours(samples, 0.95, draws(12, 100_000, rng))
    for s, sample in enumerate(samples):
        expected = stats.bootstrap(
            (sample,), np.mean, n_resamples=100_000, method=method, rng=np.random.default_rng(s)
        ).confidence_interval
        assert (low[s], high[s]) == pytest.approx((expected.low, expected.high), abs=0.02)


def test_counts_times_values_are_the_resampled_means(rng: Rng) -> None:
    values, chosen = rng.normal(size=5), draws(5, 8, rng)
    assert counts(chosen) @ values == pytest.approx(values[chosen].mean(axis=1))
