from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from analysis.bootstrap import bca_interval, counts, draws, percentile_interval

Rng = np.random.Generator


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
