"""The mixed model, beside the formulas that it must agree with."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from analysis.findings import AnalysisError
from analysis.mixed import mixed_model


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
