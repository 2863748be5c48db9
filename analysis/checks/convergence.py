"""The gap between two arms over training: whether it still shrinks, and whether the runs were done learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.cells import SOURCE_OF, Cells
from analysis.rule.intervals import CONFIDENCE
from analysis.stats import t_interval
from src.metrics import METRICS

LATE = 0.1
"""The share of training over which a loss that still falls by more than the margin is flagged."""
_SLOPE_OVER = 0.2


@dataclass(frozen=True)
class Convergence:
    """`gap`: step, difference (later minus earlier), low, high (pointwise 95% t over seeds), n.

    `shrinks`: the gap was larger at half of training, on the same side, and the change is shown (95% t interval over
    seeds). `still_falls`: by how much the arms' mean improved over the last tenth; `per_step`: over the last fifth.
    """

    earlier: Any
    later: Any
    metric: str
    gap: pd.DataFrame
    shrinks: bool
    still_falls: float
    per_step: float

    def steps_of(self, difference: float) -> float | None:
        """How many training steps at the final slope make such a difference; None where the loss no longer falls."""
        return abs(difference) / self.per_step if self.per_step > 0 else None

    def flagged(self, margin: float) -> str | None:
        """Why the difference may be one of speed, or None."""
        said = []
        if self.shrinks:
            start, end = self._half, self.gap.iloc[-1]
            said.append(
                f"the gap between {self.earlier} and {self.later} still shrinks ({start['difference']:+.3g} at step "
                f"{start['step']:,.0f}, {end['difference']:+.3g} at step {end['step']:,.0f})"
            )
        if self.still_falls > margin > 0:
            said.append(f"{self.metric} still improves by {self.still_falls:.2g} over the last tenth of training")
        return f"may be speed of convergence: {', and '.join(said)}" if said else None

    @property
    def _half(self) -> pd.Series:
        return self.gap.iloc[_nearest(self.gap["step"].to_numpy(), 0.5)]


def convergence(cells: Cells, steps: pd.DataFrame, earlier: Any, later: Any) -> Convergence | None:
    """From the steps at which all runs of both arms were evaluated; None where there are under three."""
    source = SOURCE_OF.get(cells.metric, cells.metric)
    if source not in steps or not {"run_id", "step"} <= set(steps.columns):
        return None
    runs = cells.runs[["run_id", cells.factor, "seed"]]
    table = steps[["run_id", "step", source]].merge(runs, on="run_id").dropna()
    table = table[np.isfinite(table[source].astype(float))].drop_duplicates(["run_id", "step"], keep="last")
    curves = table.pivot(index="step", columns=[cells.factor, "seed"], values=source).astype(float).sort_index()
    seeds = list(cells.values[[earlier, later]].dropna().index)
    try:
        pair = curves[[(arm, seed) for arm in (earlier, later) for seed in seeds]].dropna()
    except KeyError:
        return None
    if len(pair) < 3 or len(seeds) < 2:
        return None
    at = pair.index.to_numpy(dtype=float)
    differences = pair[later][seeds].to_numpy() - pair[earlier][seeds].to_numpy()  # [steps n]
    low, high = t_interval(differences.T, CONFIDENCE)
    gap = pd.DataFrame(
        {"step": at, "difference": differences.mean(axis=1), "low": low, "high": high, "n": len(seeds)},
    )
    lower = METRICS[cells.metric].better == "lower"
    mean = curves.dropna().mean(axis=1)
    mean = mean if len(mean) >= 3 else pair.mean(axis=1)
    return Convergence(
        earlier,
        later,
        source,
        gap,
        _shrinks(differences, at),
        _rate(mean, LATE, lower) * LATE * float(mean.index[-1]),
        _rate(mean, _SLOPE_OVER, lower),
    )


def _shrinks(differences: np.ndarray, at: np.ndarray) -> bool:
    half, end = differences[_nearest(at, 0.5)], differences[-1]
    if np.sign(half.mean()) != np.sign(end.mean()) or abs(half.mean()) <= abs(end.mean()):
        return False
    low, high = t_interval((half - end)[:, None], CONFIDENCE)
    return bool(low[0] > 0 or high[0] < 0)


def _rate(mean: pd.Series, share: float, lower: bool) -> float:
    """By how much the mean curve gets better a step over the last share of training."""
    steps = mean.index.to_numpy(dtype=float)
    start = _nearest(steps, 1 - share)
    change = float(mean.iloc[start] - mean.iloc[-1])
    return (change if lower else -change) / float(steps[-1] - steps[start])


def _nearest(steps: np.ndarray, share: float) -> int:
    """The last evaluated step at or before that share of training, never the very last."""
    return max(0, min(len(steps) - 2, int(np.searchsorted(steps, share * steps[-1], side="right")) - 1))
