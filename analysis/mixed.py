"""A mixed model beside the rule, as a check: seed random, arm fixed, one spread for all (statsmodels).

It decides nothing: its intervals are for one pair each and trust equal normal spreads. Where it and the rule differ in
direction, the reader should look at the runs.
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
from analysis.spread import pair_indices


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
    """`seed_sd`: of what a seed gives to all arms; `residual_sd`: of the rest. `converged`: as statsmodels says."""

    pairs: tuple[MixedPair, ...]
    seed_sd: float
    residual_sd: float
    runs: int
    converged: bool


def mixed_model(values: Float[Array, "n k"], arms: Sequence[Any]) -> Mixed:
    """The model over all runs there are, seeds that miss an arm too. Raises AnalysisError where they carry none."""
    k = values.shape[1]
    rows, columns = np.nonzero(np.isfinite(values))
    if k != len(arms) or len(set(columns)) < max(k, 2) or len(rows) < k + 2 or len(set(rows)) < 2:
        raise AnalysisError(f"{len(rows)} runs of {len(set(columns))} of {k} arms are too few for a mixed model")
    losses = values[rows, columns]
    scale = float(losses.std())
    if scale == 0:
        raise AnalysisError("all runs have the same value: there is nothing to model")
    design = pd.DataFrame((columns[:, None] == np.arange(k)).astype(float))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = MixedLM((losses - losses.mean()) / scale, design, groups=rows).fit(reml=True)
    contrasts = np.zeros((len(pair_indices(k)[0]), k))
    for row, (a, b) in enumerate(zip(*pair_indices(k), strict=True)):
        contrasts[row, a], contrasts[row, b] = -1.0, 1.0
    means, spread = np.asarray(fit.fe_params), np.asarray(fit.cov_params())[:k, :k]
    difference = contrasts @ means * scale
    error = np.sqrt(np.einsum("ij,jk,ik->i", contrasts, spread, contrasts)) * scale
    freedom = len(losses) - k - len(set(rows)) + 1
    half = stats.t.ppf(0.975, freedom) * error
    p = 2 * stats.t.sf(np.abs(difference) / error, freedom)
    pairs = tuple(
        MixedPair(arms[a], arms[b], *map(float, numbers))
        for a, b, *numbers in zip(*pair_indices(k), difference, difference - half, difference + half, p, strict=True)
    )
    seed_sd = float(np.sqrt(np.asarray(fit.cov_re)[0, 0])) * scale
    quiet = not any("converge" in str(warning.message).lower() for warning in caught)
    return Mixed(pairs, seed_sd, float(np.sqrt(fit.scale)) * scale, len(losses), bool(fit.converged) and quiet)
