"""The shape over head counts: a trend, a turn, the best head count. On seeds that all arms share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy import ndarray as Array
from scipy import stats

from analysis.arms import resampled_means
from analysis.cells import Cells
from analysis.findings import Finding, caution, some
from analysis.labels import CONFIDENCE, MINIMUM_PAIRS
from analysis.stats import t_interval
from src.metrics import METRICS

PerStudy = Float[Array, "*studies"]


@dataclass(frozen=True)
class Trend:
    """Page's test, once for each order: p against 'no difference' in favour of better (or worse) with more heads."""

    p_better: float
    p_worse: float
    seeds: int
    method: str


@dataclass(frozen=True)
class Turn:
    """The two-lines test. p of 'better up to some head count, worse after it', the turn, and the two slopes.

    Slopes are a doubling of the head count's change of the metric, positive meaning worse. `rise` is how much
    worse the largest head count is than the turn, with its 95% t interval.
    """

    p: float
    turn: Any
    slope_before: float
    slope_after: float
    rise: float
    rise_low: float
    rise_high: float
    seeds: int


@dataclass(frozen=True)
class Best:
    """The arm with the best mean; `low` and `high` hold it in 95% of resampled seeds; `shares` sum to 1."""

    arm: Any
    low: Any
    high: Any
    shares: dict[Any, float]
    seeds: int


@dataclass(frozen=True)
class Shape:
    """A part is None where it cannot be told; `findings` say why."""

    trend: Trend | None
    turn: Turn | None
    best: Best | None
    findings: tuple[Finding, ...]


def shape(cells: Cells, rng: np.random.Generator, resamples: int = 10_000) -> Shape:
    """Everything that can be told of the shape from the seeds that all arms share."""
    complete = cells.values.dropna()
    n, k = complete.shape
    found: list[Finding] = []
    dropped = [str(seed) for seed in cells.values.index.difference(complete.index)]
    if dropped:
        found.append(
            caution("shape", f"the shape uses {n} seeds that all arms have; without seed {some(dropped, shown=20)}")
        )
    if n < 2 or k < 2:
        found.append(Finding("shape", f"{n} shared seeds of {k} arms: no shape can be told (2 and 2 are needed)"))
        return Shape(None, None, None, tuple(found))
    if n < MINIMUM_PAIRS:
        found.append(caution("shape", f"{n} shared seeds: trend, turn and best head count are hints, not findings"))
    best = best_arm(complete, cells.metric, rng, resamples)
    if k < 3:
        found.append(Finding("shape", f"{k} arms: a trend and a turn need at least 3"))
        return Shape(None, None, best, tuple(found))
    turn = two_lines(complete, cells.metric) if k >= 4 and min(cells.arms) > 0 else None
    if turn is None:
        found.append(Finding("shape", f"{k} arms: a turn needs at least 4, all above 0"))
    return Shape(trend(complete, cells.metric), turn, best, tuple(found))


def trend(values: pd.DataFrame, metric: str) -> Trend:
    """Page's L both ways (scipy). It sees an ordered change, and is blind to a U."""
    y = _worse(values, metric)
    worse = stats.page_trend_test(y)
    better = stats.page_trend_test(y[:, ::-1])
    return Trend(float(better.pvalue), float(worse.pvalue), len(y), str(worse.method))


def two_lines(values: pd.DataFrame, metric: str) -> Turn:
    """Is there a head count up to which the metric gets better, and from which on it gets worse?

    After Simonsohn 2018: a U needs two lines with slopes of opposite sign, each by itself significant. He
    chooses one break; with the few head counts of a sweep each inner one is tried and paid for (Bonferroni),
    which keeps the error rate without a rule for choosing. Slopes are fitted for each seed on log2 of the head
    count and tested over seeds, so that what a seed does to all arms cancels.
    """
    x = np.log2(values.columns.to_numpy(dtype=float))
    y = _worse(values, metric)
    p, before, after = two_lines_by_break(y, x)
    chosen = int(np.argmin(p))
    rises = y[:, -1:] - y[:, chosen + 1, None]
    low, high = t_interval(rises, CONFIDENCE)
    return Turn(
        p=float(min(1.0, p[chosen] * len(p))),
        turn=list(values.columns)[chosen + 1],
        slope_before=float(before[chosen]),
        slope_after=float(after[chosen]),
        rise=float(rises.mean()),
        rise_low=float(low[0]),
        rise_high=float(high[0]),
        seeds=len(values),
    )


def two_lines_by_break(
    y: Float[Array, "*studies n k"], x: Float[Array, " k"]
) -> tuple[Float[Array, "*studies k-2"], Float[Array, "*studies k-2"], Float[Array, "*studies k-2"]]:
    """For each inner arm as the break: the larger of the two one-sided p, and both mean slopes."""
    p, before, after = [], [], []
    for turn in range(1, len(x) - 1):
        slopes = y[..., : turn + 1] @ _slope_weights(x[: turn + 1]), y[..., turn:] @ _slope_weights(x[turn:])
        p_falls, p_rises = _one_sided_p(-slopes[0]), _one_sided_p(slopes[1])
        p.append(np.maximum(p_falls, p_rises))
        before.append(slopes[0].mean(axis=-1))
        after.append(slopes[1].mean(axis=-1))
    return np.stack(p, axis=-1), np.stack(before, axis=-1), np.stack(after, axis=-1)


def best_arm(values: pd.DataFrame, metric: str, rng: np.random.Generator, resamples: int = 10_000) -> Best:
    """The best head count with its bootstrap interval over seeds, the arms of a seed kept together.

    The interval holds the middle 95% of the resamples' best arms in the order of head counts, so it is made
    of head counts that ran. Where several are equally good it holds one of them, not all.
    """
    sign = 1.0 if METRICS[metric].better == "lower" else -1.0
    winners = np.argmin(sign * resampled_means(values, resamples, rng), axis=1)
    low, high = best_interval(winners)
    names = list(values.columns)
    shares = {arm: float((winners == a).mean()) for a, arm in enumerate(names)}
    return Best(names[int(np.argmin(sign * values.mean().to_numpy()))], names[low], names[high], shares, len(values))


def best_interval(winners: Array) -> tuple[int, int]:
    """Positions between which the middle 95% of the winners lie."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(winners, [tail, 1 - tail], method="nearest")
    return int(low), int(high)


def _worse(values: pd.DataFrame, metric: str) -> np.ndarray:
    y = values.to_numpy(dtype=float)
    return y if METRICS[metric].better == "lower" else -y


def _slope_weights(x: Float[Array, " k"]) -> Float[Array, " k"]:
    """Weights whose sum with y is the least-squares slope."""
    centred = x - x.mean()
    return centred / (centred**2).sum()


def _one_sided_p(slopes: Float[Array, "*studies n"]) -> PerStudy:
    """p of a mean slope above 0, by the t distribution over seeds."""
    n = slopes.shape[-1]
    mean, sd = slopes.mean(axis=-1), slopes.std(axis=-1, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = stats.t.sf(mean / (sd / np.sqrt(n)), n - 1)
    return np.where(sd > 0, p, np.where(mean > 0, 0.0, 1.0))
