"""What an export was made to answer: its factor and its margin, unless its reader asks something else."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.findings import Finding, caution, some
from analysis.load import Export
from analysis.tuning import LEARNING_RATE
from src.metrics import METRICS

FACTORS = ("heads", "kv_heads", "latent_dim", "head_dim", "context_length")
_MARGIN = "config.sweep.margin_nats"


@dataclass(frozen=True)
class Question:
    """What is asked of a table.

    `against`: the reference arm; None for the smallest. `margin`: in the metric's unit, fixed beforehand; None
    for MARGIN_SDS seed standard deviations of the same data. `varying`: settings meant to differ between arms.
    `seed` of all random streams.
    """

    metric: str = "val/loss"
    factor: str = "heads"
    against: int | float | None = None
    margin: float | None = None
    varying: tuple[str, ...] = ()
    allow_unequal_tokens: bool = False
    seed: int = 0


def question_for(
    export: Export,
    metric: str = "val/loss",
    factor: str | None = None,
    against: int | float | None = None,
    margin: float | None = None,
) -> tuple[Question, list[Finding]]:
    """The question, and what must be said of where its margin comes from.

    A margin that the runs themselves recorded before their first step was fixed beforehand.
    """
    chosen = factor or _factor(export)
    if margin is not None:
        text = f"the margin of {margin:g} was given to the analysis; whether before the runs, only its giver knows"
        return Question(metric, chosen, against, margin), [Finding("margin", text)]
    recorded, findings = _recorded_margin(export, metric)
    return Question(metric, chosen, against, recorded), findings


def has_learning_rates(runs: pd.DataFrame, factor: str) -> bool:
    """Whether every arm that finished ran at several learning rates, so that it can be tuned."""
    if LEARNING_RATE not in runs or factor not in runs:
        return False
    finished = runs[runs["status"] == "finished"]
    tried = finished.groupby(factor)[LEARNING_RATE].nunique()
    return len(tried) > 0 and bool((tried > 1).all())


def _factor(export: Export) -> str:
    if "heads" not in export.runs:
        return "heads"  # the table lacks what it is about, and judging it says so
    planned = [name for plan in export.manifest["plans"] for name in plan["factors"]]
    candidates = [name for name in planned if name in FACTORS] + list(FACTORS)
    for name in sorted(dict.fromkeys(candidates), key=lambda name: name != "heads"):
        values = export.runs[name].nunique() if name in export.runs else 0
        if values > 1 or name in planned:
            return name
    return "heads"


def _recorded_margin(export: Export, metric: str) -> tuple[float | None, list[Finding]]:
    if not METRICS[metric].unit.startswith("nats") if metric in METRICS else True:
        return None, []
    if _MARGIN not in export.runs or export.runs.empty:
        return None, []
    ordered = export.runs.sort_values("started_at") if "started_at" in export.runs else export.runs
    margins = list(dict.fromkeys(None if pd.isna(value) else float(value) for value in ordered[_MARGIN]))
    if len(margins) == 1:
        return margins[0], []
    shown = some(["none" if margin is None else f"{margin:g}" for margin in margins])
    return margins[0], [caution("margin", f"runs recorded different margins ({shown}); the earliest one is used")]
