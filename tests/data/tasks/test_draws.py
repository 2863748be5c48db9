import numpy as np
import pytest
from scipy.stats import chi2, kstest

from src.data.tasks.task import below, exponentials, members, normals, uniforms, weighted_members
from src.randomness import random_words

WORDS = random_words(5, 0, 40_000)


def rows(width: int) -> np.ndarray:
    return WORDS[: len(WORDS) // width * width].reshape(-1, width)


def test_draws_follow_their_distributions() -> None:
    assert kstest(uniforms(WORDS), "uniform").pvalue > 1e-3
    assert kstest(exponentials(WORDS), "expon").pvalue > 1e-3
    assert kstest(normals(rows(8)).ravel(), "norm").pvalue > 1e-3
    counts = np.bincount(below(WORDS, 7))
    assert ((counts - len(WORDS) / 7) ** 2 / (len(WORDS) / 7)).sum() < chi2.ppf(0.999, 6)


def test_a_uniform_is_never_0_or_1() -> None:
    ends = uniforms(np.array([0, 2**64 - 1], dtype=np.uint64))
    assert 0 < ends[0] < ends[1] < 1
    assert np.isfinite(exponentials(np.array([0, 2**64 - 1], dtype=np.uint64))).all()


def test_the_two_normals_of_a_pair_are_independent() -> None:
    pairs = normals(rows(2))
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 4 / np.sqrt(len(pairs))
    assert abs(np.corrcoef((pairs**2).T)[0, 1]) < 4 / np.sqrt(len(pairs))


@pytest.mark.parametrize(("count", "size"), [(1, 1), (3, 3), (4, 10), (5, 2000)])
def test_members_are_different_and_each_is_as_likely_anywhere(count: int, size: int) -> None:
    drawn = members(rows(2 * count), size)
    assert drawn.shape[1] == count
    assert drawn.min() >= 0
    assert drawn.max() < size
    assert (np.diff(np.sort(drawn, axis=1), axis=1) > 0).all()
    if size <= 10:
        expected = len(drawn) / size
        for place in range(count):
            counts = np.bincount(drawn[:, place], minlength=size)
            assert ((counts - expected) ** 2 / expected).sum() <= chi2.ppf(0.9999, max(1, size - 1))


def test_weighted_members_are_drawn_in_proportion_one_after_the_other() -> None:
    weights = np.array([1.0, 2.0, 5.0])
    drawn = weighted_members(rows(3), weights, 2)
    n = len(drawn)
    first = np.bincount(drawn[:, 0], minlength=3) / n
    assert first == pytest.approx(weights / 8, abs=4 / np.sqrt(n))
    second = np.bincount(drawn[drawn[:, 0] == 2, 1], minlength=3)
    assert second / second.sum() == pytest.approx([1 / 3, 2 / 3, 0], abs=4 / np.sqrt(second.sum()))
