"""The intervals of one arm's own numbers, measured."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.methods.candidates import improvement_coverage, interval_coverage, iqm_coverage

Rng = np.random.Generator


def test_the_t_interval_covers_with_few_seeds_where_the_bootstrap_does_not(rng: Rng) -> None:
    rows = interval_coverage(1000, rng).to_dict("records")
    normal = {row["n"]: row for row in rows if row["differences"] == "normal"}
    assert all(abs(float(row["t"]) - 0.95) < 0.02 for row in normal.values())
    assert float(normal[6]["percentile"]) < 0.89
    assert float(normal[6]["BCa"]) < 0.89


def test_the_interquartile_mean_is_told_with_an_interval_a_little_too_narrow(rng: Rng) -> None:
    assert pd.to_numeric(iqm_coverage(500, rng)["normal"]).between(0.86, 0.97).all()


def test_the_share_of_seeds_has_an_interval_that_holds(rng: Rng) -> None:
    table = improvement_coverage(500, rng).drop(columns="n").astype(float)
    assert table.to_numpy().min() > 0.9
