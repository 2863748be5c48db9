import tracemalloc
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from src.data import permutation
from src.data.permutation import Permutation, ShuffledEpochs

fuzz = settings(max_examples=30)


@fuzz
@given(st.integers(1, 5000), st.integers(0, 2**63 - 1))
def test_every_thing_has_one_place(n: int, key: int) -> None:
    assert np.array_equal(np.sort(Permutation(n, key).places(0, n)), np.arange(n))


@pytest.mark.parametrize("n", [permutation.BLOCK - 1, permutation.BLOCK, 3 * permutation.BLOCK + 7])
def test_blocks_are_a_matter_of_speed(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Permutation(n, key=3).places(0, n)
    assert len(set(whole.tolist())) == n
    monkeypatch.setattr(permutation, "BLOCK", 100)
    assert np.array_equal(Permutation(n, key=3).places(n - 250, n), whole[n - 250 :])


def test_a_trillion_things_take_no_more_memory_than_a_few_blocks() -> None:
    tracemalloc.start()
    places = Permutation(10**12, key=5).places(10**11, 10**11 + 1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(set(places.tolist())) == 1000
    assert places.min() >= 0
    assert places.max() < 10**12
    assert peak < 16 * 8 * permutation.BLOCK  # a block and what it is computed with
    assert abs(places.mean() / 10**12 - 0.5) < 5 / np.sqrt(12 * 1000)  # within five standard errors


@pytest.mark.parametrize(("n", "keys"), [(2, 200), (3, 300), (4, 600)])
def test_all_orders_of_a_few_things_are_equally_likely(n: int, keys: int) -> None:
    seen = Counter(tuple(Permutation(n, key).places(0, n).tolist()) for key in range(keys))
    orders = int(np.prod(range(1, n + 1)))
    expected = keys / orders
    statistic = sum((count - expected) ** 2 / expected for count in seen.values())
    assert len(seen) == orders
    assert statistic < chi2.ppf(0.999, orders - 1)


def test_a_thing_lands_anywhere_and_neighbours_land_apart() -> None:
    n, keys = 17, 800
    places = np.stack([Permutation(n, key).places(0, n) for key in range(keys)])
    expected = keys / n
    for thing in (0, 8, n - 1):
        counts = np.bincount(places[:, thing], minlength=n)
        assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(0.9999, n - 1)
    apart = np.bincount((places[:, 1] - places[:, 0]) % n, minlength=n)[1:]
    expected = keys / (n - 1)
    assert ((apart - expected) ** 2 / expected).sum() < chi2.ppf(0.9999, n - 2)


def test_nothing_has_no_order() -> None:
    with pytest.raises(ValueError, match="n=0"):
        Permutation(0, key=1)


class TestShuffledEpochs:
    def test_each_epoch_shows_everything_once_in_an_order_of_its_own(self) -> None:
        epochs = ShuffledEpochs(50, seed=1)
        orders = [epochs.pieces(50 * epoch, 50)[0][1].tolist() for epoch in range(4)]
        assert all(sorted(order) == list(range(50)) for order in orders)
        assert all(first != second for first, second in pairwise(orders))

    @fuzz
    @given(st.integers(1, 30), st.integers(0, 90), st.integers(1, 40))
    def test_any_piece_of_the_stream_is_the_same_however_it_is_cut(self, n: int, first: int, count: int) -> None:
        def members(first: int, count: int) -> list[tuple[int, int]]:
            pieces = ShuffledEpochs(n, seed=2).pieces(first, count)
            return [(epoch, place) for epoch, places in pieces for place in places.tolist()]

        cut = members(first, count)
        assert cut == [one for i in range(count) for one in members(first + i, 1)]
        assert [epoch for epoch, _ in cut] == [(first + i) // n for i in range(count)]
