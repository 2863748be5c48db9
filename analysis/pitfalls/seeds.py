"""Mistakes with seeds. Each function takes a verdict and looks at the numbers that it was made from."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.decision import ALPHA, CONFIDENCE
from analysis.inference import t_interval
from analysis.pitfalls.pitfall import Pitfall, best_of, best_with_interval, labels, not_shown
from analysis.verdict import Verdict
from src.metrics import METRICS


def one_seed(verdict: Verdict) -> Pitfall:
    """Every head count run once, and the best one named."""
    name, mistake = "One seed", "run every arm once and name the best"
    complete = verdict.cells.values.dropna()
    if len(complete) < 2 or complete.shape[1] < 2:
        return not_shown(name, mistake, "these runs share under two seeds")
    winners = [best_of(row, verdict.metric) for _, row in complete.iterrows()]
    counted = [f"{arm} ({count} of {len(winners)} seeds)" for arm, count in Counter(winners).most_common()]
    first = f"with seed {complete.index[0]} alone, {verdict.factor}={winners[0]} is the best"
    wrong = f"{first}; by the seed that happens to be chosen it is {', '.join(counted)}"
    return Pitfall(name, mistake, wrong, best_with_interval(verdict), len(set(winners)) > 1)


def best_of_seeds(verdict: Verdict) -> Pitfall:
    """The best run of each arm instead of its mean: more seeds, better number."""
    name, mistake = "Best of several seeds", "report each arm's best run"
    values = verdict.cells.values
    if values.shape[1] < 2 or values.count().max() < 2:
        return not_shown(name, mistake, "no two arms have several seeds")
    lower = METRICS[verdict.metric].better == "lower"
    bests = values.min() if lower else values.max()
    chosen, by_mean = best_of(bests, verdict.metric), best_of(values.mean(), verdict.metric)
    flattery = float((bests - values.mean()).abs().mean())
    wrong = (
        f"{verdict.factor}={chosen} wins with {bests[chosen]:.4f}; every arm looks {flattery:.2g} better than its "
        "mean, the more so the more seeds it had"
    )
    return Pitfall(name, mistake, wrong, f"by the mean: {best_with_interval(verdict)}", chosen != by_mean)


def sd_over_n(verdict: Verdict) -> Pitfall:
    """The standard error as SD / n, as some published templates have it, instead of SD / root n."""
    name, mistake = "SD over n", "take SD / n for the standard error, and 1.96 of them for an interval"
    pairs, differences = _differences(verdict)
    if not pairs:
        return not_shown(name, mistake, "no two arms share two seeds")
    n = np.isfinite(differences).sum(axis=0)
    mean, sd = np.nanmean(differences, axis=0), np.nanstd(differences, axis=0, ddof=1)
    wrong_half = 1.96 * sd / n
    low, high = t_interval(differences, CONFIDENCE)
    wrong_found, found = np.abs(mean) > wrong_half, (low > 0) | (high < 0)
    narrower = np.divide((high - low) / 2, wrong_half, out=np.ones_like(sd), where=wrong_half > 0)
    wrong = (
        f"{wrong_found.sum()} of {len(pairs)} differences leave out zero, with intervals "
        f"{np.median(narrower):.1f} times too narrow"
    )
    right = f"{found.sum()} of {len(pairs)} do, by paired t intervals; against the margin: {labels(verdict)}"
    return Pitfall(name, mistake, wrong, right, bool((wrong_found != found).any()))


def not_paired(verdict: Verdict) -> Pitfall:
    """Seeds treated as if they were not shared: what a seed does to all arms alike counts as noise."""
    name, mistake = "Seeds not paired", "compare two groups of runs as if their seeds had nothing in common"
    pairs, differences = _differences(verdict)
    if not pairs:
        return not_shown(name, mistake, "no two arms share two seeds")
    values = verdict.cells.values
    unpaired = [_p(stats.ttest_ind(values[a].dropna(), values[b].dropna(), equal_var=False)) for a, b in pairs]
    paired = [_p(stats.ttest_1samp(column[np.isfinite(column)], 0)) for column in differences.T]
    found = sum(p <= ALPHA for p in paired)
    wrong = f"{sum(p <= ALPHA for p in unpaired)} of {len(pairs)} differences are seen (Welch's t, no correction)"
    right = f"{found} of {len(pairs)} are, by the same test on paired differences; over all together: {labels(verdict)}"
    return Pitfall(name, mistake, wrong, right, sum(p <= ALPHA for p in unpaired) != found)


def _p(result: Any) -> float:
    return float(result.pvalue)


def _differences(verdict: Verdict) -> tuple[list[tuple[float, float]], np.ndarray]:
    """Each contrast with the reference that has two pairs or more, and its differences: [n, m]."""
    values = verdict.cells.values
    arms = [arm for arm in verdict.cells.arms if arm != verdict.reference]
    table = pd.DataFrame({arm: values[arm] - values[verdict.reference] for arm in arms}, index=values.index)
    usable = [arm for arm in arms if table[arm].nunique() >= 2]
    return [(verdict.reference, arm) for arm in usable], table[usable].to_numpy(dtype=float)
