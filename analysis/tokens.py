"""Equal training: runs that saw fewer tokens are not worse, they are shorter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.cells import Cells
from analysis.findings import AnalysisError, Finding, caution, some
from analysis.runs import require
from src.metrics import METRICS

TOKENS = "train/tokens"
_SOURCE = {"val/loss_best": "val/loss"}


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
    source = _SOURCE.get(cells.metric, cells.metric)
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
