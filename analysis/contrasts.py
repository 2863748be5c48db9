"""Paired contrasts: a step from fewer to more heads, on the seeds that both have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from analysis.cells import Cells
from analysis.findings import AnalysisError, some
from analysis.labels import ALPHA, HELPS, HURTS, INCONCLUSIVE, MINIMUM_PAIRS, PLATEAU, Decision, decide
from analysis.seeds import settle
from analysis.stats import signs_for, smallest_p
from src.metrics import METRICS

Against = int | float | Literal["previous"]


def pairs_of(arms: Sequence[Any], against: Against) -> list[tuple[Any, Any]]:
    """(fewer, more) of each contrast: every arm with the reference, or every arm with the one before it.

    >>> pairs_of([1, 2, 4], against=2)
    [(1, 2), (2, 4)]
    """
    if against == "previous":
        return list(pairwise(arms))
    if against not in arms:
        raise AnalysisError(f"the reference {against} has no usable run; those with one: {some(list(map(str, arms)))}")
    return [(min(arm, against), max(arm, against)) for arm in arms if arm != against]


def differences_of(cells: Cells, pairs: Sequence[tuple[Any, Any]]) -> pd.DataFrame:
    """metric(more) - metric(fewer) a seed: rows are seeds, columns (fewer, more); NaN where one of them is missing."""
    columns = {pair: cells.values[pair[1]] - cells.values[pair[0]] for pair in pairs}
    table = pd.DataFrame(columns, index=cells.values.index)
    return table.dropna(how="all")


def contrasts(cells: Cells, against: Against, margin: float, rng: np.random.Generator) -> pd.DataFrame:
    """One row a contrast that has at least two pairs, in the order of the arms. Columns:

    fewer, more            the step; `difference` is metric(more) - metric(fewer) in the metric's unit
    pairs, difference, low, high (95% t interval), low_90, high_90 (TOST), sd, correlation (between the two arms)
    p, p_smallest          two-sided sign-flip p, and the smallest that so many pairs can reach
    p_holm, p_family       the same over all contrasts: Holm, and step-down max-T
    p_beyond               t test against the margin, Holm over all contrasts
    label, reason          the effect of more heads (analysis.labels), and why
    seeds_needed, seeds_plan     for INCONCLUSIVE: how many seeds would settle it, and the sentence
    improvement, improvement_low, improvement_high    share of seeds on which more heads are better (Wilson, 95%)
    """
    pairs = pairs_of(cells.arms, against)
    table = differences_of(cells, pairs)
    pairs = [pair for pair in pairs if table[pair].notna().sum() >= 2]
    if not pairs:
        asked = some([f"{more} with {fewer}" for fewer, more in pairs_of(cells.arms, against)])
        raise AnalysisError(
            f"no two arms share two seeds ({asked}), so nothing can be compared; each arm's own mean can be told"
        )
    differences = table[pairs].to_numpy()
    worse = differences if METRICS[cells.metric].better == "lower" else -differences
    decision = decide(worse, margin, signs_for(len(differences), rng))
    return pd.DataFrame(
        [_row(cells, pair, differences[:, c], decision, c, margin, len(pairs)) for c, pair in enumerate(pairs)]
    )


def _row(
    cells: Cells,
    pair: tuple[Any, Any],
    differences: np.ndarray,
    decision: Decision,
    c: int,
    margin: float,
    family: int,
) -> dict[str, Any]:
    fewer, more = pair
    lower_is_better = METRICS[cells.metric].better == "lower"
    flip = 1.0 if lower_is_better else -1.0
    ends = sorted((flip * decision.low[c], flip * decision.high[c]))
    ends_90 = sorted((flip * decision.low_90[c], flip * decision.high_90[c]))
    pairs, mean, sd = int(decision.pairs[c]), flip * float(decision.mean[c]), float(decision.sd[c])
    label, reason = _label(cells, pair, decision, c, margin)
    open_by_seeds = label == INCONCLUSIVE and decision.label[c] == INCONCLUSIVE  # more seeds bring no survivor back
    plan = settle(pairs, mean, sd, margin, family) if open_by_seeds else None
    share, low, high = improvement(differences[np.isfinite(differences)], lower_is_better)
    return {
        "fewer": fewer,
        "more": more,
        "pairs": pairs,
        "difference": mean,
        "low": ends[0],
        "high": ends[1],
        "low_90": ends_90[0],
        "high_90": ends_90[1],
        "sd": sd,
        "correlation": cells.values[fewer].corr(cells.values[more]) if sd > 0 else np.nan,
        "p": float(decision.p[c]),
        "p_smallest": smallest_p(pairs),
        "p_holm": float(decision.p_holm[c]),
        "p_family": float(decision.p_family[c]),
        "p_beyond": float(decision.p_beyond[c]),
        "label": label,
        "reason": reason,
        "seeds_needed": None if plan is None else plan.seeds,
        "seeds_plan": None if plan is None else plan.sentence,
        "improvement": share,
        "improvement_low": low,
        "improvement_high": high,
    }


def _label(cells: Cells, pair: tuple[Any, Any], decision: Decision, c: int, margin: float) -> tuple[str, str]:
    """The label and its reason. A label that only survivors support is not given."""
    label, pairs = str(decision.label[c]), int(decision.pairs[c])
    lost_fewer, lost_more = (cells.coverage.outcomes(arm) for arm in pair)
    lost = {HELPS: lost_more, HURTS: lost_fewer, PLATEAU: [*lost_fewer, *lost_more]}.get(label, [])
    if lost:
        return (
            INCONCLUSIVE,
            f"{label} among the runs that ended well, but {some(lost)} did not: survivors prove nothing",
        )
    if pairs < MINIMUM_PAIRS:
        return INCONCLUSIVE, (
            f"{pairs} pairs: under {MINIMUM_PAIRS} a sign-flip p cannot fall below {smallest_p(pairs):.3g}, "
            f"so {ALPHA} is out of reach"
        )
    direction = "better" if decision.mean[c] < 0 else "worse"
    if label in (HELPS, HURTS):
        return label, f"{direction} by more than the margin of {margin:.4g}"
    if label == PLATEAU:
        rest = (
            f"; a difference is shown ({direction}), but it is smaller than the margin" if decision.differs[c] else ""
        )
        return label, f"the 90% interval lies inside the margin of {margin:.4g}{rest}"
    if decision.differs[c]:
        return label, f"{direction}, but whether by more than the margin of {margin:.4g} is open"
    return label, f"neither beyond the margin of {margin:.4g} nor inside it"


def improvement(differences: np.ndarray, lower_is_better: bool) -> tuple[float, float, float]:
    """Share of seeds on which more heads are better (ties count half), with Wilson's 95% interval.

    The paired form of rliable's probability of improvement: of two runs that share a seed.
    """
    better = differences < 0 if lower_is_better else differences > 0
    wins = float(better.sum() + (differences == 0).sum() / 2)
    low, high = np.asarray(proportion_confint(wins, len(differences), method="wilson"), dtype=float)
    return wins / len(differences), float(low), float(high)
