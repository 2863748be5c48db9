"""One number an arm and a seed, at equal training, with an account of every run; and one row an arm, costs beside.

Used and left out = planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.findings import AnalysisError, Finding, caution, some
from analysis.load import COSTS, FINISHED, require
from analysis.rule.intervals import CONFIDENCE
from analysis.stats import counts, draws, t_interval
from src.metrics import METRICS

ABSENT = "absent"
NO_NUMBER = "no number"
_OUTCOMES = ("diverged", NO_NUMBER)
"""Endings that depend on the result itself: leaving such runs out makes their arm look better than it is."""


@dataclass(frozen=True)
class Coverage:
    """Every planned cell (an arm with a seed) is used or left out by name.

    `left_out`: run_id, arm, seed, status, reason. `repeats`: run_id, arm, seed of runs beyond one a cell.
    """

    factor: str
    planned: int
    used: int
    left_out: pd.DataFrame
    repeats: pd.DataFrame
    unplaced: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """'8 of 12 planned runs are counted; left out: heads=16 seed 2 (diverged), ...'"""
        text = f"{self.used} of {self.planned} planned runs are counted"
        if len(self.left_out):
            text += f"; left out: {some(self.names, shown=40)}"
        if len(self.repeats):
            text += (
                f"; {len(self.repeats)} repeated runs are not counted (of several finished runs of one cell the "
                f"first counts): {some([str(run) for run in self.repeats['run_id']], shown=12)}"
            )
        if self.unplaced:
            text += f"; without a {self.factor} or a seed, so in no cell: {some(list(self.unplaced), shown=12)}"
        return text

    @property
    def names(self) -> list[str]:
        """'heads=16 seed 2 (diverged)' for each cell left out."""
        return [
            f"{self.factor}={row.arm} seed {row.seed} ({row.reason})" for row in self.left_out.itertuples(index=False)
        ]

    def outcomes(self, arm: Any) -> list[str]:
        """The cells of one arm whose absence depends on the result: diverged, or finished without a number."""
        rows = self.left_out[(self.left_out["arm"] == arm) & self.left_out["status"].isin(_OUTCOMES)]
        return [f"{self.factor}={row.arm} seed {row.seed} ({row.reason})" for row in rows.itertuples(index=False)]


@dataclass(frozen=True)
class Cells:
    """`values`: seeds by arms, NaN where a cell is left out. `runs`: the rows that were used."""

    factor: str
    metric: str
    values: pd.DataFrame
    runs: pd.DataFrame
    coverage: Coverage

    @property
    def arms(self) -> list[Any]:
        return list(self.values.columns)

    def outcomes(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Seeds by arms, with every arm and seed whose run ended by its own result: the values, and which diverged."""
        lost = self.coverage.left_out[self.coverage.left_out["status"].isin(_OUTCOMES)]
        seeds = sorted({*self.values.index, *lost["seed"]})
        arms = sorted({*self.arms, *lost["arm"]})
        values = self.values.reindex(index=seeds, columns=arms).astype(float)
        diverged = pd.DataFrame(False, index=seeds, columns=arms)
        for row in lost.itertuples(index=False):
            diverged.loc[row.seed, row.arm] = True  # pyright: ignore[reportCallIssue, reportArgumentType]
        return values, diverged

    def with_values(self, by_run: Mapping[str, float], metric: str) -> Cells:
        """The same runs with another number each, such as the metric at a common step."""
        runs = self.runs.assign(**{self.metric: self.runs["run_id"].map(dict(by_run)).astype(float)})
        return Cells(self.factor, metric, _pivot(runs, self.factor, self.metric), runs, self.coverage)


def cells(runs: pd.DataFrame, factor: str, metric: str, planned: bool = False) -> Cells:
    """The cells of one group of comparable runs.

    Of several finished runs of a cell the first counts (by started_at, then run_id), so that nobody can
    repeat a run until it is good. `planned`: the table holds every planned run; without it the plan is
    taken to be every arm with every seed. Raises AnalysisError where no run can be used.
    """
    order = [name for name in ("started_at", "run_id") if name in runs]
    placed = runs[runs[factor].notna() & runs["seed"].notna()].sort_values(order, kind="stable")
    unplaced = tuple(str(run) for run in runs["run_id"][~runs.index.isin(placed.index)])
    usable = placed[(placed["status"] == FINISHED) & np.isfinite(placed[metric].astype(float))]
    used = usable.drop_duplicates([factor, "seed"])
    repeats = usable[~usable.index.isin(used.index)]
    left_out = _left_out(placed, used, factor, metric, planned)
    coverage = Coverage(
        factor=factor,
        planned=len(used) + len(left_out),
        used=len(used),
        left_out=left_out,
        repeats=repeats[["run_id", factor, "seed"]].rename(columns={factor: "arm"}),
        unplaced=unplaced,
    )
    if used.empty:
        raise AnalysisError(f"no run has a finite {metric}: {coverage.sentence}; only this coverage can be told")
    return Cells(factor, metric, _pivot(used, factor, metric), used, coverage)


def findings_of(coverage: Coverage) -> list[Finding]:
    """What a reader must know of the runs that are not there."""
    found = [] if not len(coverage.left_out) else [caution("coverage", coverage.sentence)]
    if not found:
        found = [Finding("coverage", coverage.sentence)]
    lost = coverage.left_out[coverage.left_out["status"].isin(_OUTCOMES)]
    if len(lost):
        arms = some([f"{coverage.factor}={arm}" for arm in dict.fromkeys(lost["arm"])])
        found.append(
            caution("outcome", f"runs of {arms} are left out because of their result; what remains looks too good")
        )
    return found


def _pivot(used: pd.DataFrame, factor: str, metric: str) -> pd.DataFrame:
    table = used.pivot(index="seed", columns=factor, values=metric).astype(float)
    table = table.sort_index(axis=0).sort_index(axis=1)
    table.index = pd.Index([int(seed) for seed in table.index], name="seed")
    table.columns = pd.Index([_number(arm) for arm in table.columns], name=factor)
    return table


def _number(arm: Any) -> int | float:
    return int(arm) if float(arm).is_integer() else float(arm)


def _left_out(placed: pd.DataFrame, used: pd.DataFrame, factor: str, metric: str, planned: bool) -> pd.DataFrame:
    taken = set(zip(used[factor], used["seed"], strict=True))
    rows = {}
    for row in placed.to_dict("records"):
        cell = (row[factor], row["seed"])
        if cell not in taken:
            status, reason = _ending(row, metric)
            rows[cell] = (row["run_id"], _number(cell[0]), int(cell[1]), status, reason)  # the latest attempt
    if not planned:
        for arm in placed[factor].unique():
            for seed in placed["seed"].unique():
                if (arm, seed) not in taken:
                    rows.setdefault((arm, seed), (None, _number(arm), int(seed), ABSENT, "no record"))
    table = pd.DataFrame(rows.values(), columns=["run_id", "arm", "seed", "status", "reason"])
    return table.sort_values(["arm", "seed"], ignore_index=True)


def _ending(row: Mapping[Any, Any], metric: str) -> tuple[str, str]:
    if row["status"] == FINISHED:
        return NO_NUMBER, f"finished without a finite {metric}: {row[metric]}"
    status = str(row["status"])
    words, error = status.replace("_", " "), row.get("error")
    if isinstance(error, str) and error.strip():
        return status, f"{words}: {error.strip().splitlines()[-1][:120]}"
    return status, words


TOKENS = "train/tokens"
SOURCE_OF = {"val/loss_best": "val/loss"}
"""The metric over training that a metric of a whole run is taken from."""


def unequal_tokens(cells: Cells) -> Finding | None:
    """A caution that names the token counts where the used runs saw different ones; a note where nobody knows."""
    if TOKENS not in cells.runs or cells.runs[TOKENS].isna().all():
        return Finding("tokens", f"the table has no {TOKENS}, so equal training could not be checked")
    tokens = cells.runs[TOKENS]
    missing = cells.runs["run_id"][tokens.isna()]
    if len(missing):
        return caution("tokens", f"{TOKENS} is missing in {some([str(run) for run in missing])}")
    if tokens.nunique() == 1:
        return None
    ranges = [
        f"{cells.factor}={arm}: {low:,.0f}" + (f" to {high:,.0f}" if high > low else "")
        for arm, low, high in (
            (arm, group.min(), group.max()) for arm, group in cells.runs.groupby(cells.factor)[TOKENS]
        )
    ]
    return caution("tokens", f"runs saw unequal numbers of training tokens ({some(ranges, shown=16)})")


@dataclass(frozen=True)
class Common:
    """The cells at the last step at which every used run was evaluated."""

    cells: Cells
    step: int
    finding: Finding


def at_common_step(cells: Cells, steps: pd.DataFrame) -> Common:
    """The metric at the largest step that all used runs share.

    Within a group batch size and context are alike, so an equal step means equal tokens. A best-so-far
    metric is the best up to that step. Raises AnalysisError where there is no such step.
    """
    source = SOURCE_OF.get(cells.metric, cells.metric)
    require(steps, ("run_id", "step", source))
    runs = list(cells.runs["run_id"])
    rows = steps[steps["run_id"].isin(runs) & np.isfinite(pd.to_numeric(steps[source], errors="coerce"))]
    table = rows.drop_duplicates(["run_id", "step"], keep="last").pivot(index="step", columns="run_id", values=source)
    without = [str(run) for run in runs if run not in table.columns]
    if without:
        raise AnalysisError(f"the steps hold no {source} of {some(without)}, so there is no common step")
    shared = table.astype(float).sort_index().dropna()
    if shared.empty:
        raise AnalysisError(
            f"no step has {source} for all {len(runs)} runs; evaluate them at the same steps (training.eval_interval)"
        )
    step = int(shared.index[-1])
    best = table.astype(float).sort_index().loc[:step]
    if source == cells.metric:
        values = shared.loc[shared.index[-1]]
    else:
        values = best.min() if METRICS[cells.metric].better == "lower" else best.max()
    text = f"compared at step {step:,}, the last at which all {len(runs)} runs were evaluated: equal training tokens"
    by_run = {str(run): float(value) for run, value in values.items()}
    return Common(cells.with_values(by_run, cells.metric), step, Finding("tokens", text))


# One row an arm: its metric with an interval, and beside it what the arm costs and whether that is matched.
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
