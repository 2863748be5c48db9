"""One row an arm: its metric with an interval, and beside it what the arm costs and whether that is matched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.cells import Cells
from analysis.findings import Finding, caution, some
from analysis.intervals import CONFIDENCE
from analysis.load import COSTS
from analysis.stats import counts, draws, t_interval
from src.metrics import METRICS

MATCHED_WITHIN = 0.01
DESIGNED = ("cost/parameters", "cost/flops_per_token", "cache/bytes")
_ALIKE_SPREAD = 3.0


def arms(cells: Cells, rng: np.random.Generator, resamples: int = 2000) -> pd.DataFrame:
    """Indexed by arm: n, mean, sd, low, high (95% t), iqm, iqm_low, iqm_high (95% bootstrap), best, worst.

    Then the mean of each cost column that the runs have; NaN where no run measured it.
    """
    rows = {arm: _row(cells, arm, rng, resamples) for arm in cells.arms}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(cells.factor)


def interquartile_mean(values: np.ndarray, axis: int = -1) -> Any:
    """Mean without the lowest and highest quarter (rounded down), as in rliable (Agarwal et al. 2021).

    >>> float(interquartile_mean(np.array([1.0, 2.0, 3.0, 100.0])))
    2.5
    """
    return stats.trim_mean(values, 0.25, axis=axis)


def _row(cells: Cells, arm: Any, rng: np.random.Generator, resamples: int) -> dict[str, Any]:
    values = cells.values[arm].dropna().to_numpy()
    low, high = t_interval(values[:, None], CONFIDENCE)
    resampled = interquartile_mean(values[draws(len(values), resamples, rng)])
    iqm_low, iqm_high = np.quantile(resampled, [0.025, 0.975]) if len(values) > 1 else (np.nan, np.nan)
    row = {
        "n": len(values),
        "mean": float(values.mean()),
        "sd": float(values.std(ddof=1)) if len(values) > 1 else np.nan,
        "low": float(low[0]),
        "high": float(high[0]),
        "iqm": float(interquartile_mean(values)),
        "iqm_low": float(iqm_low),
        "iqm_high": float(iqm_high),
        "best": float(values.min() if METRICS[cells.metric].better == "lower" else values.max()),
        "worst": float(values.max() if METRICS[cells.metric].better == "lower" else values.min()),
    }
    own = cells.runs[cells.runs[cells.factor] == arm]
    return row | {cost: float(own[cost].mean()) for cost in COSTS if cost in own}


def matched(table: pd.DataFrame, reference: Any) -> pd.DataFrame:
    """Each arm's cost over the reference's; 1 is matched. Columns: the cost columns of `arms`."""
    present = [cost for cost in COSTS if cost in table]
    return table[present] / table.loc[reference, present]


def matching_findings(ratios: pd.DataFrame) -> list[Finding]:
    """What the head count changed beside itself: parameters, FLOPs, cache bytes."""
    found = []
    for cost in (cost for cost in DESIGNED if cost in ratios):
        off = ratios[cost][(ratios[cost] - 1).abs() > MATCHED_WITHIN]
        if len(off):
            text = some([f"{arm}: x{ratio:.3g}" for arm, ratio in off.items()])
            found.append(caution("matching", f"{cost} is not matched to the reference ({text})"))
    alike = [cost for cost in DESIGNED if cost in ratios and ratios[cost].sub(1).abs().le(MATCHED_WITHIN).all()]
    if alike:
        found.append(Finding("matching", f"{some(alike)} are matched within {MATCHED_WITHIN:.0%} over all arms"))
    return found


def spread_findings(table: pd.DataFrame) -> list[Finding]:
    """Arms whose seeds do not scatter at all, or far more than others': a pooled margin fits neither."""
    sd = table["sd"].dropna()
    still = [str(arm) for arm in sd.index[sd == 0]]
    if still:
        return [caution("spread", f"all seeds of {some(still)} gave the same number; does the seed reach these runs?")]
    if len(sd) < 2 or sd.max() / sd.min() <= _ALIKE_SPREAD:
        return []
    text = f"seeds scatter unevenly: SD {sd.min():.3g} at {sd.idxmin()} and {sd.max():.3g} at {sd.idxmax()}"
    return [caution("spread", f"{text}; a margin pooled over arms fits neither")]


def resampled_means(values: pd.DataFrame, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Means of resampled seeds, the arms of a seed together: [R, k]. Rows of `values` must be complete."""
    return counts(draws(len(values), resamples, rng)) @ values.to_numpy()
