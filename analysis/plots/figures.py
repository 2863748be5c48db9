"""The figures that an export has data for, each with a title and a caption that names its marks, n and source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.asked import has_learning_rates
from analysis.findings import AnalysisError, Finding, some
from analysis.load import Export
from analysis.plots import cache_size, contrast_forest, cost_frontier, learning_curves, learning_rate_map, loss, speed
from analysis.plots.style import new_figure
from analysis.runs import FINISHED
from analysis.tokens import TOKENS
from analysis.verdict import Verdict

_SPEEDS = ("train/tokens_per_second", "decode/ms_per_token")


@dataclass(frozen=True)
class Drawn:
    """One figure. `caption` says what the marks are, n, and where the numbers come from."""

    name: str
    title: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Gallery:
    drawn: list[Drawn]
    findings: list[Finding]


Wanted = tuple[str, Callable[[], Drawn | None]]


def figures_of_verdict(verdict: Verdict, export: Export) -> Gallery:
    """Every figure of one experiment; one that cannot be drawn is a finding that says why."""
    wanted: list[Wanted] = [
        ("loss", lambda: _loss(verdict, export)),
        ("contrasts", lambda: _contrasts(verdict, export)),
        ("learning curves", lambda: _curves(verdict, export)),
        *((metric, lambda metric=metric: _speed(verdict, export, metric)) for metric in _SPEEDS),
        *((cost, lambda cost=cost: _frontier(verdict, export, cost)) for cost in verdict.frontiers),
    ]
    return _gallery(wanted)


def figures_of_export(export: Export, factor: str, metric: str) -> Gallery:
    """The figures that span experiments: cache against context, heads against learning rate."""
    return _gallery(
        [
            ("cache size", lambda: _cache(export)),
            ("learning rates", lambda: _rates(export, factor, metric)),
        ]
    )


def _gallery(wanted: list[Wanted]) -> Gallery:
    drawn, findings = [], []
    for name, make in wanted:
        try:
            made = make()
        except (AnalysisError, KeyError) as error:
            reason = f"the table has no column {error}" if isinstance(error, KeyError) else str(error)
            findings.append(Finding("figures", f"no figure of {name}: {reason}"))
            continue
        if made is not None:
            drawn.append(made)
    return Gallery(drawn, findings)


def _of(verdict: Verdict) -> dict[str, str]:
    """What a verdict compares, as the drawings ask for it."""
    return {"factor": verdict.factor, "metric": verdict.metric, "unit": verdict.unit}


def _loss(verdict: Verdict, export: Export) -> Drawn:
    figure, ax = _axes()
    loss.draw(
        verdict.cells.runs,
        ax,
        reference=verdict.reference,
        margin=verdict.margin,
        **_of(verdict),
    )
    at = "" if verdict.common_step is None else f" at step {verdict.common_step:,}"
    caption = (
        f"Each dot is one run{at}, thin lines join runs of one seed; diamonds are means with 95% t intervals. "
        f"{_counts(verdict)}. {_margin(verdict)}Source: {export.sentence}."
    )
    return Drawn("loss", f"{verdict.metric} against {verdict.factor}", caption, figure)


def _contrasts(verdict: Verdict, export: Export) -> Drawn | None:
    table = pd.concat([verdict.contrasts, verdict.ladder], ignore_index=True)
    if table.empty:
        return None
    table = table.drop_duplicates(["fewer", "more"])
    figure = new_figure(7.2, 1.3 + 0.34 * len(table))
    ax = figure.add_subplot()
    contrast_forest.draw(table, ax, margin=verdict.margin, **_of(verdict))
    caption = (
        f"Differences on shared seeds, each arm with {verdict.reference} and with the one before it: mean, 95% "
        f"interval (thin) and 90% interval (thick), paired t. {_margin(verdict)}Source: {export.sentence}."
    )
    return Drawn("contrasts", f"Pairwise contrasts of {verdict.metric}", caption, figure)


def _curves(verdict: Verdict, export: Export) -> Drawn | None:
    used = verdict.cells.runs[["run_id", verdict.factor]]
    steps = export.steps.merge(used, on="run_id")
    metric = "val/loss" if verdict.metric.startswith("val/") else verdict.metric
    if metric not in steps or steps.dropna(subset=[metric]).groupby("run_id").size().max() < 3:
        metric = "train/loss"
    x = TOKENS if TOKENS in steps and steps[TOKENS].notna().any() else "step"
    if metric not in steps or steps.dropna(subset=[metric]).empty:
        return None
    figure, ax = _axes()
    learning_curves.draw(steps.dropna(subset=[x]), ax, factor=verdict.factor, metric=metric, unit=verdict.unit, x=x)
    caption = (
        "Mean over the runs of each arm, where all of them have a number; bands are the "
        f"{learning_curves.BAND}; the steep first quarter runs above the frame. {_counts(verdict)}. "
        f"Source: {export.sentence}."
    )
    return Drawn("learning_curves", f"{metric} over training", caption, figure)


def _speed(verdict: Verdict, export: Export, metric: str) -> Drawn | None:
    runs = verdict.cells.runs
    if metric not in runs or runs[metric].isna().all():
        return None
    figure, ax = _axes()
    speed.draw(runs, ax, factor=verdict.factor, metric=metric)
    where = [some([str(v) for v in runs[name].dropna().unique()]) for name in _DEVICE if name in runs]
    caption = (
        f"Each dot is one run, lines join medians; colours are attention kernels, which head width can change. "
        f"Measured on {', '.join(word for word in where if word)}. {_counts(verdict)}. Source: {export.sentence}."
    )
    return Drawn(metric.replace("/", "_"), f"{metric} against {verdict.factor}", caption, figure)


_DEVICE = ("environment.device_name", "environment.dtype")


def _frontier(verdict: Verdict, export: Export, cost: str) -> Drawn | None:
    front = verdict.frontiers[cost]
    price = front.points["cost"].to_numpy(dtype=float)
    if len(price) < 2 or np.ptp(price) <= 1e-9 * np.abs(price).max():
        return None
    figure, ax = _axes()
    cost_frontier.draw(front.points, ax, cost=cost, knee=front.knee, **_of(verdict))
    shares = some([f"{arm}: {share:.0%}" for arm, share in front.points["share"].items()], shown=16)
    caption = (
        f"Means with 95% t intervals; filled points are on the frontier: no other is at least as good and as cheap. "
        f"Share of resampled seeds in which each is on it: {shares}. {_counts(verdict)}. Source: {export.sentence}."
    )
    return Drawn(f"frontier_{cost.replace('/', '_')}", f"{verdict.metric} against {cost}", caption, figure)


def _cache(export: Export) -> Drawn | None:
    runs = export.runs
    measured = runs[(runs["status"] == FINISHED) & runs["cache/bytes"].notna()]
    if measured.empty:
        return None
    figure, ax = _axes()
    cache_size.draw(measured, ax)
    caption = (
        f"Points are the bytes that {len(measured)} runs allocated for one sequence, lines the formula of src/costs.py "
        f"over other contexts. Source: {export.sentence}."
    )
    return Drawn("cache_size", "KV cache against context", caption, figure)


def _rates(export: Export, factor: str, metric: str) -> Drawn | None:
    if not has_learning_rates(export.runs, factor):
        return None
    runs = export.runs[(export.runs["status"] == FINISHED) & np.isfinite(export.runs[metric].astype(float))]
    figure = new_figure(1.8 + 1.1 * runs[learning_rate_map.LEARNING_RATE].nunique(), 1.2 + 0.6 * runs[factor].nunique())
    ax = figure.add_subplot()
    learning_rate_map.draw(runs, ax, factor=factor, metric=metric)
    caption = f"Mean over finished runs, n in each cell; the best of each row is framed. Source: {export.sentence}."
    return Drawn("learning_rates", f"{metric} by {factor} and learning rate", caption, figure)


def _axes() -> tuple[Figure, Axes]:
    figure = new_figure()
    return figure, figure.add_subplot()


def _counts(verdict: Verdict) -> str:
    counts = verdict.arms["n"]
    if counts.nunique() == 1:
        return f"n = {counts.iloc[0]} seeds each"
    return "n = " + some([f"{n} at {arm}" for arm, n in counts.items()], shown=16)


def _margin(verdict: Verdict) -> str:
    if verdict.margin is None:
        return ""
    source = "fixed beforehand" if verdict.margin_source == "fixed beforehand" else "taken from the same data"
    return f"The band is the margin of {verdict.margin:.4g}, {source}. "
