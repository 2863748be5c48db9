"""How often the intervals of one arm's own numbers hold the truth (the differences' are in analysis.trials)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy import ndarray as Array
from statsmodels.stats.proportion import proportion_confint

from analysis.arms import interquartile_mean
from analysis.intervals import CONFIDENCE
from analysis.stats import bca_interval, draws, percentile_interval, t_interval

SIZES = (6, 10, 20)
Rng = np.random.Generator

NOISES: dict[str, Callable[[Rng, tuple[int, ...]], Array]] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "heavy tails (t, 3 df)": lambda rng, size: rng.standard_t(3, size=size) / np.sqrt(3),
    "skewed (exponential)": lambda rng, size: rng.exponential(size=size) - 1,
    "very skewed (lognormal)": lambda rng, size: (
        (rng.lognormal(size=size) - np.exp(0.5)) / np.sqrt(np.exp(1) * (np.exp(1) - 1))
    ),
}
"""Mean 0, standard deviation 1 each."""


def interval_coverage(studies: int, rng: Rng) -> pd.DataFrame:
    """Share of 95% intervals that hold the true mean difference, and their median width in t intervals."""
    rows = []
    for noise in NOISES:
        for n in SIZES:
            samples = NOISES[noise](rng, (studies, n))
            chosen = draws(n, 2000, rng)
            low, high = (end[:, 0] for end in t_interval(samples[..., None], CONFIDENCE))
            width = np.median(high - low)
            row: dict[str, object] = {"differences": noise, "n": n, "t": _share((low < 0) & (high > 0))}
            for name, interval in (("percentile", percentile_interval), ("BCa", bca_interval)):
                low, high = interval(samples, CONFIDENCE, chosen)
                row[name] = _share((low < 0) & (high > 0))
                row[f"{name} width"] = f"{np.median(high - low) / width:.2f}"
            rows.append(row)
    return pd.DataFrame(rows)


def improvement_coverage(studies: int, rng: Rng) -> pd.DataFrame:
    """Share of Wilson intervals that hold the true probability of improvement."""
    rows = []
    for n in SIZES:
        row: dict[str, object] = {"n": n}
        for truth in (0.5, 0.7, 0.9):
            wins = rng.binomial(n, truth, size=studies)
            low, high = np.asarray(proportion_confint(wins, n, method="wilson"))
            row[f"P = {truth}"] = _share((low < truth) & (truth < high))
        rows.append(row)
    return pd.DataFrame(rows)


def iqm_coverage(studies: int, rng: Rng) -> pd.DataFrame:
    """Share of percentile intervals of the interquartile mean that hold the true one (0, normal and heavy tails)."""
    rows = []
    for n in SIZES:
        row: dict[str, object] = {"n": n}
        for noise in ("normal", "heavy tails (t, 3 df)"):
            samples = NOISES[noise](rng, (min(studies, 1000), n))
            chosen = draws(n, 1000, rng)
            resampled = np.stack([interquartile_mean(sample[chosen]) for sample in samples])
            low, high = np.quantile(resampled, [0.025, 0.975], axis=-1)
            row[noise] = _share((low < 0) & (high > 0))
        rows.append(row)
    return pd.DataFrame(rows)


def _share(hits: Array | np.bool) -> str:
    return f"{float(np.mean(hits)):.3f}"
