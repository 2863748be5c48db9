"""Other ways to look at the same pairs, for the methods appendix: none of them decides anything."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.findings import AnalysisError
from analysis.mixed import MixedPair, mixed_model
from analysis.stats import beyond_margin_p, family_p, holm, sign_flip_p, signs_for, t_interval
from src.metrics import METRICS


def other_tests(values: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Each arm with the first. Columns: earlier, later, seeds, then

    difference, low, high     paired t interval of this pair alone (95%)
    p_t, p_t_holm             paired t, and Holm's adjustment over these pairs
    p_flips, p_flips_family   sign flips, and step-down max-T over these pairs
    p_welch, p_permutation    as if seeds were not shared (two-sided)
    mixed, mixed_p            a mixed model's difference (seed random, one spread for all arms) and its p
    """
    first, *others = list(values.columns)
    others = [arm for arm in others if (values[arm] - values[first]).notna().sum() >= 2]
    if not others:
        return pd.DataFrame()
    differences = np.stack([(values[arm] - values[first]).to_numpy() for arm in others], axis=1)
    differences = differences[np.isfinite(differences).any(axis=1)]
    signs = signs_for(len(differences), rng)
    low, high = t_interval(differences, 0.95)
    p_t = beyond_margin_p(differences, 0.0)
    flips, family = sign_flip_p(differences, signs), family_p(differences, signs)
    mixed = _mixed(values)
    rows = []
    for c, arm in enumerate(others):
        a, b = values[first].dropna(), values[arm].dropna()
        rows.append(
            {
                "earlier": first,
                "later": arm,
                "seeds": int(np.isfinite(differences[:, c]).sum()),
                "difference": float(np.nanmean(differences[:, c])),
                "low": float(low[c]),
                "high": float(high[c]),
                "p_t": p_t[c],
                "p_t_holm": float(holm(p_t)[c]),
                "p_flips": float(flips[c]),
                "p_flips_family": float(family[c]),
                "p_welch": _welch_p(a.to_numpy(), b.to_numpy()),
                "p_permutation": unpaired_permutation_p(a.to_numpy(), b.to_numpy(), rng),
                "mixed": mixed[arm].difference if arm in mixed else np.nan,
                "mixed_p": mixed[arm].p if arm in mixed else np.nan,
            }
        )
    return pd.DataFrame(rows)


def page_trend(values: pd.DataFrame, metric: str) -> tuple[float, float] | None:
    """Page's test for an ordered change: p in favour of better, and of worse, with more. None under three arms.

    It is blind to a turn, and so decides nothing.
    """
    complete = values.dropna()
    if len(complete) < 2 or complete.shape[1] < 3:
        return None
    y = complete.to_numpy(dtype=float) * (1 if METRICS[metric].better == "lower" else -1)
    better, worse = stats.page_trend_test(y[:, ::-1]), stats.page_trend_test(y)
    return float(better.pvalue), float(worse.pvalue)


def unpaired_permutation_p(a: np.ndarray, b: np.ndarray, rng: np.random.Generator, draws: int = 2000) -> float:
    """Two-sided p of the difference of means when runs are dealt to the two arms anew (scipy, Welch's t)."""
    if min(len(a), len(b)) < 2:
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # runs that are all alike
        found = stats.permutation_test((a, b), _welch, vectorized=True, n_resamples=draws, rng=rng)
    return float(found.pvalue)


def _mixed(values: pd.DataFrame) -> dict[Any, MixedPair]:
    """Each arm with the first by the mixed model; empty where it cannot be fitted."""
    try:
        fitted = mixed_model(values.to_numpy(), list(values.columns))
    except (AnalysisError, np.linalg.LinAlgError):
        return {}
    return {pair.later: pair for pair in fitted.pairs if pair.earlier == values.columns[0]}


def _welch(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
    error = np.sqrt(x.var(axis=axis, ddof=1) / x.shape[axis] + y.var(axis=axis, ddof=1) / y.shape[axis])
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num((y.mean(axis=axis) - x.mean(axis=axis)) / error)


def _welch_p(a: np.ndarray, b: np.ndarray) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # runs that are all alike
        found: Any = stats.ttest_ind(b, a, equal_var=False)
    return float(found.pvalue)
