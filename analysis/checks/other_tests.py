"""Other ways to look at the same pairs, for the methods appendix: none of them decides anything.

A mixed model (statsmodels): seed random, arm fixed; once with one spread for all arms, once with a spread for each. Its
intervals are for one pair each and trust normal noise. Where it and the rule differ in direction, the reader should
look at the runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy import ndarray as Array
from scipy import stats
from statsmodels.regression.mixed_linear_model import MixedLM

from analysis.findings import AnalysisError
from analysis.rule.critical import pair_indices
from analysis.stats import beyond_margin_p, family_p, holm, sign_flip_p, signs_for, t_interval
from src.metrics import METRICS


@dataclass(frozen=True)
class MixedPair:
    """metric(later) - metric(earlier) with its own, unadjusted 95% interval and p."""

    earlier: Any
    later: Any
    difference: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Mixed:
    """`seed_sd`: of what a seed gives to all arms; `residual_sd`: of the rest, one an arm (all alike where pooled).

    `converged`: as statsmodels says.
    """

    pairs: tuple[MixedPair, ...]
    seed_sd: float
    residual_sd: tuple[float, ...]
    runs: int
    converged: bool


def mixed_model(values: Float[Array, "n k"], arms: Sequence[Any], *, pooled: bool = True) -> Mixed:
    """The model over all runs there are, seeds that miss an arm too; one spread for all arms, or one for each.

    Degrees of freedom: those of the pooled rest, or, with a spread for each arm, those of a pair (seeds - 1). Raises
    AnalysisError where the runs carry none.
    """
    k = values.shape[1]
    rows, columns = np.nonzero(np.isfinite(values))
    if k != len(arms) or len(set(columns)) < max(k, 2) or len(rows) < k + 2 or len(set(rows)) < 2:
        raise AnalysisError(f"{len(rows)} runs of {len(set(columns))} of {k} arms are too few for a mixed model")
    losses = values[rows, columns]
    scale = float(losses.std())
    if scale == 0:
        raise AnalysisError("all runs have the same value: there is nothing to model")
    design = pd.DataFrame((columns[:, None] == np.arange(k)).astype(float), columns=[f"arm{c}" for c in range(k)])
    own = [] if pooled else _arms_with_more(values)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = _fitted((losses - losses.mean()) / scale, design, rows, own)
    earlier, later = pair_indices(k)
    means, spread = np.asarray(fit.fe_params), np.asarray(fit.cov_params())[:k, :k]
    difference = (means[later] - means[earlier]) * scale
    variance = spread[earlier, earlier] + spread[later, later] - 2 * spread[earlier, later]
    error = np.sqrt(np.maximum(variance, 0)) * scale
    freedom = len(losses) - k - len(set(rows)) + 1 if pooled else len(set(rows)) - 1
    half = stats.t.ppf(0.975, freedom) * error
    p = 2 * stats.t.sf(np.abs(difference) / error, freedom)
    pairs = tuple(
        MixedPair(arms[a], arms[b], *map(float, numbers))
        for a, b, *numbers in zip(earlier, later, difference, difference - half, difference + half, p, strict=True)
    )
    more = dict(zip(own, np.asarray(fit.vcomp), strict=True))
    residual = tuple(float(np.sqrt(fit.scale + more.get(c, 0.0))) * scale for c in range(k))
    seed_sd = float(np.sqrt(np.asarray(fit.cov_re)[0, 0])) * scale
    quiet = not any("converge" in str(warning.message).lower() for warning in caught)
    return Mixed(pairs, seed_sd, residual, len(losses), bool(fit.converged) and quiet)


def _fitted(losses: Float[Array, " r"], design: pd.DataFrame, seeds: Array, own: list[int]) -> Any:
    """`own`: arms with a variance of their own on top of that of the rest."""
    if not own:
        return MixedLM(losses, design, groups=seeds).fit(reml=True)
    table = design.assign(loss=losses)
    parts = {f"arm{c}": f"0 + arm{c}" for c in own}
    formula = f"loss ~ 0 + {' + '.join(design.columns)}"
    model = MixedLM.from_formula(formula, table, groups=seeds, re_formula="1", vc_formula=parts)
    return model.fit(reml=True, method=["powell", "nm"])  # those with gradients stop short where a variance is 0


def _arms_with_more(values: Float[Array, "n k"]) -> list[int]:
    """All arms but the one that scatters least about its seeds: a variance on top of another cannot be negative."""
    rest = values - np.nanmean(values, axis=1, keepdims=True)
    least = int(np.argmin(np.nanvar(rest, axis=0)))
    return [c for c in range(values.shape[1]) if c != least]


# Other ways to look at the same pairs, for the methods appendix: none of them decides anything.
def other_tests(values: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Each arm with the first. Columns: earlier, later, seeds, then

    difference, low, high     paired t interval of this pair alone (95%)
    p_t, p_t_holm             paired t, and Holm's adjustment over these pairs
    p_flips, p_flips_family   sign flips, and step-down max-T over these pairs
    p_welch, p_permutation    as if seeds were not shared (two-sided)
    mixed, mixed_p            a mixed model's difference (seed random, one spread for all arms) and its p
    mixed_own, mixed_own_p    the same with a spread for each arm
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
    mixed, own = _mixed(values, pooled=True), _mixed(values, pooled=False)
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
                "mixed_own": own[arm].difference if arm in own else np.nan,
                "mixed_own_p": own[arm].p if arm in own else np.nan,
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


_MOST_ARMS = 12
"""With more arms than that no model with a spread for each is fitted: it takes minutes."""


def _mixed(values: pd.DataFrame, pooled: bool) -> dict[Any, MixedPair]:
    """Each arm with the first by the mixed model; empty where it cannot be fitted, or does not converge."""
    if not pooled and not 3 <= values.shape[1] <= _MOST_ARMS:
        return {}
    try:
        fitted = mixed_model(values.to_numpy(), list(values.columns), pooled=pooled)
    except (AnalysisError, np.linalg.LinAlgError):
        return {}
    if not pooled and not fitted.converged:
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
