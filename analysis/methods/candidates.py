"""The ways to judge all pairs together that were tried before one was chosen; and intervals of one arm's own numbers.

Every candidate takes losses [studies n k] and returns bool [studies m]: pairs shown to differ, family-wise at 5%.
METHODS.md has the tables that `python -m analysis.methods` makes of them: who keeps 5%, and at what cost.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from numpy import ndarray as Array
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from analysis.cells import interquartile_mean
from analysis.methods.trials import NOISES, SIZES, draw
from analysis.rule.critical import pair_indices
from analysis.rule.intervals import CONFIDENCE, simultaneous
from analysis.stats import bca_interval, draws, percentile_interval, t_interval
from src.randomness import stream_seed

ALPHA = 0.05
_RESAMPLES = 400
_GRID = np.array([2.0, 3, 4, 5, 6, 8, 10, 14, 20, 30, 60, 200])

Values = Float[Array, "studies n k"]
Found = Bool[Array, "studies m"]


def bonferroni_t(values: Values, rng: np.random.Generator) -> Found:
    return _t_p(values) * _pairs(values) <= ALPHA


def holm_t(values: Values, rng: np.random.Generator) -> Found:
    """Stepped down, so it has no intervals that would imply its labels."""
    p = _t_p(values)
    order = np.argsort(p, axis=1)
    stricter = np.take_along_axis(p, order, axis=1) * (p.shape[1] - np.arange(p.shape[1]))
    adjusted = np.maximum.accumulate(stricter, axis=1)
    return np.take_along_axis(adjusted, np.argsort(order, axis=1), axis=1) <= ALPHA


def largest_t(values: Values, rng: np.random.Generator) -> Found:
    """One critical value from alike normal arms; every pair with its own error."""
    return _t(values) > _alike(*values.shape[1:], False)


def tukey_pooled(values: Values, rng: np.random.Generator) -> Found:
    """Tukey's range with one spread for all arms (what is left once seed and arm means are out)."""
    return _t(values, pooled=True) > _alike(*values.shape[1:], True)


def largest_t_estimated(values: Values, rng: np.random.Generator) -> Found:
    """The critical value of each study from normal arms with its own estimated covariance."""
    n, k = values.shape[1:]
    seen, found = _t(values), []
    for study, t in zip(values, seen, strict=True):
        level, basis = np.linalg.eigh(np.cov(study, rowvar=False))
        drawn = rng.normal(size=(_RESAMPLES, n, k)) @ (basis * np.sqrt(np.maximum(level, 0))).T
        found.append(t > np.quantile(_t(drawn).max(axis=1), 1 - ALPHA))
    return np.array(found)


def bootstrap_t(values: Values, rng: np.random.Generator) -> Found:
    """The largest |t| of seeds drawn again, about the study's own means."""
    n = values.shape[1]
    found = []
    for study, t in zip(values, _t(values), strict=True):
        drawn = (study - study.mean(axis=0))[rng.integers(0, n, size=(_RESAMPLES, n))]
        found.append(t > np.quantile(_t(drawn).max(axis=1), 1 - ALPHA))
    return np.array(found)


def sign_flips(values: Values, rng: np.random.Generator) -> Found:
    """Largest |t| over all flips of a seed's differences (2,000 drawn ones above ten seeds); single step."""
    n = values.shape[1]
    if n <= 10:
        signs = 1.0 - 2.0 * ((np.arange(2 ** (n - 1))[:, None] >> np.arange(n)) & 1)
    else:
        signs = rng.integers(0, 2, size=(2000, n)) * 2.0 - 1.0
        signs[0] = 1.0
    earlier, later = pair_indices(values.shape[2])
    found = []
    for study in values:
        d = study[:, later] - study[:, earlier]
        share = np.minimum((signs @ d) ** 2 / (n * (d**2).sum(axis=0)), 1 - 1e-12)  # of the square sum, by the mean
        p = (share.max(axis=1)[:, None] >= share[0] - 1e-12).mean(axis=0)
        found.append(p <= ALPHA)
    return np.array(found)


def skewness_adjusted(values: Values, rng: np.random.Generator) -> Found:
    """Johnson's t, its skewness taken from the pair's own differences, against the value of `largest_t`."""
    d = _differences(values)
    n, mean, sd = d.shape[1], d.mean(axis=1), d.std(axis=1, ddof=1)
    third = ((d - mean[:, None]) ** 3).mean(axis=1)
    t = (mean + third / (6 * sd**2 * n) + third * mean**2 / (3 * sd**4)) * np.sqrt(n) / sd
    return np.abs(t) > _alike(*values.shape[1:], False)


def games_howell(values: Values, rng: np.random.Generator) -> Found:
    """Unpaired: Welch's t of each pair against Tukey's range."""
    n, k = values.shape[1:]
    earlier, later = pair_indices(k)
    mean, share = values.mean(axis=1), values.var(axis=1, ddof=1) / n
    both = share[:, earlier] + share[:, later]
    freedom = both**2 / ((share[:, earlier] ** 2 + share[:, later] ** 2) / (n - 1))
    t = np.abs(mean[:, later] - mean[:, earlier]) / np.sqrt(both)
    return t > np.interp(1 / freedom, 1 / _GRID[::-1], _range(k)[::-1])


def chosen(values: Values, rng: np.random.Generator) -> Found:
    found = simultaneous(values)
    return (found.low > 0) | (found.high < 0)


CANDIDATES: dict[str, Callable[[Values, np.random.Generator], Found]] = {
    "paired t, Bonferroni": bonferroni_t,
    "paired t, Holm (no intervals)": holm_t,
    "largest t, alike normal arms": largest_t,
    "largest t, estimated covariance": largest_t_estimated,
    "Tukey, pooled spread": tukey_pooled,
    "Games-Howell (unpaired)": games_howell,
    "sign flips, largest t": sign_flips,
    "bootstrap-t, largest t": bootstrap_t,
    "Johnson's skewness-adjusted t": skewness_adjusted,
    "chosen": chosen,
}


def _differences(values: Float[Array, "s n k"]) -> Float[Array, "s n m"]:
    earlier, later = pair_indices(values.shape[2])
    return values[:, :, later] - values[:, :, earlier]


def _t(values: Float[Array, "s n k"], pooled: bool = False) -> Float[Array, "s m"]:
    d = _differences(values)
    variance = d.var(axis=1, ddof=1)
    if pooled:
        variance = np.broadcast_to(variance.mean(axis=1, keepdims=True), variance.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.abs(d.mean(axis=1)) / np.sqrt(variance / d.shape[1])
    return np.where(np.isnan(t), 0.0, t)


def _t_p(values: Values) -> Float[Array, "s m"]:
    return 2 * stats.t.sf(_t(values), values.shape[1] - 1)


def _pairs(values: Values) -> int:
    return len(pair_indices(values.shape[2])[0])


@lru_cache(maxsize=64)
def _range(k: int) -> Array:
    """Tukey's critical |t| at the degrees of freedom of `games_howell`'s grid."""
    return stats.studentized_range.ppf(1 - ALPHA, k, _GRID) / np.sqrt(2)


@lru_cache(maxsize=64)
def _alike(n: int, k: int, pooled: bool) -> float:
    drawn = np.random.default_rng(0).normal(size=(20_000, n, k))
    return float(np.quantile(_t(drawn, pooled).max(axis=1), 1 - ALPHA))


# The candidates measured: who keeps 5% of false differences, and how much each finds.
TRIED_STUDIES = 2000
SLOW = {"largest t, estimated covariance": 500, "bootstrap-t, largest t": 500}
"""Studies of the candidates that draw anew for each study."""
FLAT = [name for name, noise in NOISES.items() if not noise.lost and not noise.missing]
CURVE, SD = "falling, one margin a step", 0.01


def tried_names() -> list[str]:
    return [f"tried | {candidate} | n={n}" for n in SIZES for candidate in CANDIDATES]


def tried_row(name: str, studies: int) -> dict[str, object]:
    """Share of flat studies with a false difference by noise; and of true differences found, steps of one seed SD."""
    _, candidate, size = name.split(" | ")
    n, judge = int(size.removeprefix("n=")), CANDIDATES[candidate]
    studies = min(studies, SLOW.get(candidate, studies))
    rng = np.random.default_rng(stream_seed(0, "bootstrap", "tried", n))
    false = {noise: float(judge(draw("flat", noise, SD, n, studies, rng)[0], rng).any(axis=1).mean()) for noise in FLAT}
    found = {
        noise: float(judge(draw(CURVE, noise, SD, n, studies, rng)[0], rng).mean()) for noise in (FLAT[0], FLAT[1])
    }
    return {"name": name, "false": false, "found": found}


def tried_table(rows: dict[str, dict[str, Any]], markdown: Callable[[list[str], list[list[str]]], str]) -> str:
    lines = []
    for candidate in CANDIDATES:
        line = [candidate]
        for n in SIZES:
            row = rows[f"tried | {candidate} | n={n}"]
            false, found = row["false"], row["found"]
            worst = max(false, key=lambda noise: false[noise])
            line.append(f"{false[FLAT[0]]:.3f}, {false[worst]:.3f} / {found[FLAT[0]]:.2f}, {found[FLAT[1]]:.2f}")
        lines.append(line)
    return markdown(["candidate", *(f"n = {n}" for n in SIZES)], lines)


# How often the intervals of one arm's own numbers hold the truth (the differences' are in analysis.methods.trials).
ARM_SIZES = (6, 10, 20)
Rng = np.random.Generator

ARM_NOISES: dict[str, Callable[[Rng, tuple[int, ...]], Array]] = {
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
    for noise in ARM_NOISES:
        for n in ARM_SIZES:
            samples = ARM_NOISES[noise](rng, (studies, n))
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
    for n in ARM_SIZES:
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
    for n in ARM_SIZES:
        row: dict[str, object] = {"n": n}
        for noise in ("normal", "heavy tails (t, 3 df)"):
            samples = ARM_NOISES[noise](rng, (min(studies, 1000), n))
            chosen = draws(n, 1000, rng)
            resampled = np.stack([interquartile_mean(sample[chosen]) for sample in samples])
            low, high = np.quantile(resampled, [0.025, 0.975], axis=-1)
            row[noise] = _share((low < 0) & (high > 0))
        rows.append(row)
    return pd.DataFrame(rows)


def _share(hits: Array | np.bool) -> str:
    return f"{float(np.mean(hits)):.3f}"
