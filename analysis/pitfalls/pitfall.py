"""One mistake, shown on real runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.verdict import Verdict
from src.metrics import METRICS


@dataclass(frozen=True)
class Pitfall:
    """`mistake` is what is done, `wrong` what follows from it, `right` what the runs really say.

    `misleads` tells whether the two differ on these runs; None where the runs cannot show it, and `wrong` says why.
    """

    name: str
    mistake: str
    wrong: str
    right: str
    misleads: bool | None

    @property
    def sign(self) -> str:
        return {True: "misleads here", False: "harmless here, by luck", None: "cannot be shown here"}[self.misleads]


def not_shown(name: str, mistake: str, why: str) -> Pitfall:
    return Pitfall(name, mistake, why, "", None)


def best_of(values: pd.Series, metric: str) -> Any:
    """The arm with the best value."""
    return values.idxmin() if METRICS[metric].better == "lower" else values.idxmax()


def best_with_interval(verdict: Verdict) -> str:
    """'8 heads has the best mean, but 4 to 8 could be best (95% of resampled seeds)'."""
    best = verdict.shape.best
    if best is None:
        return "these runs share too few seeds to name a best one"
    span = f"{best.low}" if best.low == best.high else f"any of {best.low} to {best.high}"
    return f"{verdict.factor}={best.arm} has the best mean; with other seeds {span} could be (95% of resamples)"


def labels(verdict: Verdict) -> str:
    """'PLATEAU from 1 to 2, 1 to 4; HELPS from 1 to 8'."""
    if verdict.contrasts.empty:
        return "nothing can be compared"
    found: dict[str, list[str]] = {}
    for row in verdict.contrasts.itertuples():
        found.setdefault(str(row.label), []).append(f"{row.fewer} to {row.more}")
    return "; ".join(f"{label} from {', '.join(steps)}" for label, steps in found.items())
