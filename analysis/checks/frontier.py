"""Loss against cost: which arms no other arm beats on both, how sure that is, and where the knee lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from numpy import ndarray as Array

from analysis.cells import Cells
from analysis.findings import AnalysisError, Finding, caution, some
from analysis.rule.intervals import CONFIDENCE
from analysis.stats import draws, t_interval
from src.metrics import METRICS

_SAME = 1e-9


@dataclass(frozen=True)
class Frontier:
    """`points` is indexed by arm: cost, cost_low, cost_high, value, low, high, on_frontier, share (of resamples).

    `knee` is None where there is no bend or too few points; with one, `knee_shares` is over the resamples that
    have one too.
    """

    metric: str
    cost: str
    points: pd.DataFrame
    knee: Any | None
    knee_shares: dict[Any, float]
    findings: tuple[Finding, ...]


def frontier(cells: Cells, cost: str, rng: np.random.Generator, resamples: int = 2000) -> Frontier:
    """The arms that give the best metric for what they cost, with bootstrap shares over seeds.

    `cost` is a metric's or a costs.* column; one whose better way is up (tokens/s) counts the other way round.
    Raises AnalysisError where the cost is missing or under two arms have it.
    """
    if cost not in cells.runs:
        raise AnalysisError(f"the table has no column {cost!r}")
    prices = cells.runs.pivot(index="seed", columns=cells.factor, values=cost).astype(float)
    prices = prices.reindex(index=cells.values.index).set_axis(cells.values.columns, axis=1)
    known = [arm for arm in cells.arms if prices[arm].notna().any()]
    if len(known) < 2:
        raise AnalysisError(f"{cost} is known for {len(known)} arms; a frontier needs 2")
    values, prices = cells.values[known], prices[known]
    points = _points(values, prices)
    sign, price_sign = _sign(cells.metric), _sign(cost)
    points["on_frontier"] = on_frontier(sign * points["value"].to_numpy(), price_sign * points["cost"].to_numpy())
    knee = knee_of(sign * points["value"].to_numpy(), price_sign * points["cost"].to_numpy())
    v, c = _resampled(sign * values, price_sign * prices, rng, resamples)
    points["share"] = on_frontier(v, c).mean(axis=0)
    knee_shares = {} if knee is None else _knee_shares(known, v, c)
    found = _findings(cells, cost, known, points)
    return Frontier(cells.metric, cost, points, None if knee is None else known[knee], knee_shares, tuple(found))


def on_frontier(values: Float[Array, "*studies k"], costs: Float[Array, "*studies k"]) -> Bool[Array, "*studies k"]:
    """Whether no other arm is at least as good and as cheap, and better in one of them. Lower is better in both."""
    v, c = values[..., :, None], costs[..., :, None]
    other_v, other_c = values[..., None, :], costs[..., None, :]
    no_worse = (other_v <= v) & (other_c <= c)
    better = (other_v < v) | (other_c < c)
    return np.logical_not(np.any(no_worse & better, axis=-1))


def knee_of(values: Float[Array, " k"], costs: Float[Array, " k"]) -> int | None:
    """Position of the frontier's bend: the point farthest below the line between its ends, both axes scaled to 1.

    Costs count by their logarithm where all are above 0. None under three points, or where none lies below.
    """
    if (costs > 0).all():
        costs = np.log(costs)
    elif (costs < 0).all():
        costs = -np.log(-costs)
    places = np.flatnonzero(on_frontier(values, costs))
    places = places[np.argsort(costs[places], kind="stable")]
    if len(places) < 3:
        return None
    x, y = costs[places], values[places]
    if np.ptp(x) <= _SAME * np.abs(x).max() or np.ptp(y) == 0:
        return None
    below = 1 - (x - x[0]) / (x[-1] - x[0]) - (y - y[-1]) / (y[0] - y[-1])
    at = int(np.argmax(below))
    return int(places[at]) if below[at] > _SAME else None


def _points(values: pd.DataFrame, prices: pd.DataFrame) -> pd.DataFrame:
    low, high = t_interval(values.to_numpy(), CONFIDENCE)
    cost_low, cost_high = t_interval(prices.to_numpy(), CONFIDENCE)
    return pd.DataFrame(
        {
            "cost": prices.mean(),
            "cost_low": cost_low,
            "cost_high": cost_high,
            "value": values.mean(),
            "low": low,
            "high": high,
        }
    )


def _resampled(
    values: pd.DataFrame, prices: pd.DataFrame, rng: np.random.Generator, resamples: int
) -> tuple[Float[Array, "R k"], Float[Array, "R k"]]:
    """Means of resampled seeds, without the resamples in which some arm has no cell."""
    chosen = draws(len(values), resamples, rng)
    v, c = (_means(table.to_numpy(), chosen) for table in (values, prices))
    usable = np.isfinite(v).all(axis=1) & np.isfinite(c).all(axis=1)
    return v[usable], c[usable]


def _knee_shares(arms: list[Any], values: Float[Array, "R k"], costs: Float[Array, "R k"]) -> dict[Any, float]:
    """Share of each arm among the knees of those resamples that have one."""
    knees = [knee for knee in map(knee_of, values, costs) if knee is not None]
    return {arm: knees.count(a) / len(knees) for a, arm in enumerate(arms) if a in knees}


def _means(table: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Mean of each resample over the cells that are there: [R, k]; NaN where a resample has none of an arm."""
    there = np.isfinite(table)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(there, table, 0.0)[chosen].sum(axis=1) / there[chosen].sum(axis=1)


def _findings(cells: Cells, cost: str, known: list[Any], points: pd.DataFrame) -> list[Finding]:
    found = []
    unknown = [str(arm) for arm in cells.arms if arm not in known]
    if unknown:
        found.append(caution("frontier", f"{cost} is not known for {some(unknown)}; they are not on the frontier"))
    price = points["cost"]
    if np.ptp(price) <= _SAME * price.abs().max():
        found.append(Finding("frontier", f"all arms have the same {cost}: there is nothing to trade against it"))
    return found


def _sign(name: str) -> float:
    return -1.0 if name in METRICS and METRICS[name].better == "higher" else 1.0
