"""The table of runs: which columns it must hold, and their types.

One row a run. Columns that are read here and in the other rooms:

    run_id, status, seed                 always needed
    heads (or another factor)            the thing that varies; integers stay integers
    kv_heads, head_dim, context_length,  final integers and words of the run
    regime, attention, data_hash
    config.<setting>                     what its user wrote: config.model.d_model, config.training.learning_rate
    geometry.*, costs.*                  derived integers
    <metric>                             slash names of src/metrics.py: val/loss, train/tokens, cache/bytes, ...
    started_at, error                    optional: order of repeats, reason of a failure
    code.*, environment.*                optional: named when not alike

A table of steps has run_id, step and the same metric names.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from analysis.findings import AnalysisError, some
from src.errors import did_you_mean
from src.metrics import METRICS
from src.record import STATUSES

INTEGERS = ("heads", "kv_heads", "head_dim", "context_length", "seed", "latent_dim", "rope_dim")
COSTS = (
    "cost/parameters",
    "cost/attention_parameters",
    "cost/flops_per_token",
    "cache/bytes",
    "train/tokens_per_second",
    "decode/ms_per_token",
    "memory/peak_bytes",
)
FINISHED = "finished"
NOT_RUN = "not_run"


def typed(runs: pd.DataFrame, factor: str, metric: str) -> pd.DataFrame:
    """The table with integers as integers (8, never 8.0 or "8") and metrics as floats; a fresh copy.

    Raises AnalysisError where it is empty, lacks a column, or holds a value that is no number or no status.
    """
    if runs.empty:
        raise AnalysisError(
            "the table holds no runs, so nothing can be said; run a sweep (python -m src.train -m heads=1,2,4 "
            "seed=0,1,2,3,4,5) and export it"
        )
    if metric not in METRICS:
        raise AnalysisError(f"metric {metric!r} is not declared in src/metrics.py{did_you_mean(metric, METRICS)}")
    require(runs, ("run_id", "status", "seed", factor, metric))
    table = runs.reset_index(drop=True)
    for name in table.columns:
        if name in INTEGERS:
            table[name] = integers(table[name], str(name))
        elif name in METRICS or name == factor:
            table[name] = numbers(table[name], str(name))
    if factor not in INTEGERS and (table[factor].dropna() % 1 == 0).all():
        table[factor] = integers(table[factor], factor)
    table["status"] = table["status"].astype(str)
    unknown = sorted(set(table["status"]) - set(STATUSES))
    if unknown:
        raise AnalysisError(f"status {some(unknown)} is unknown; the table may hold {', '.join(STATUSES)}")
    return table


def require(runs: pd.DataFrame, columns: Iterable[str]) -> None:
    """Raises AnalysisError that names the missing columns and the metrics that are there."""
    there = [str(name) for name in runs.columns]
    missing = [name for name in columns if name not in there]
    if not missing:
        return
    usable = [name for name in there if name in METRICS]
    can = f"metrics that it holds: {some(usable)}" if usable else "it holds no metric, so only its coverage can be told"
    raise AnalysisError(
        f"the table has no column {', '.join(map(repr, missing))}{did_you_mean(missing[0], there)}; {can}"
    )


def integers(column: pd.Series, name: str) -> pd.Series:
    """A column of whole numbers as Int64, missing ones as missing."""
    values = numbers(column, name)
    fractional = values[values.notna() & (values % 1 != 0)]
    if len(fractional):
        raise AnalysisError(f"column {name!r} holds {some([str(v) for v in fractional.unique()])}; whole numbers only")
    return values.astype("Int64")


def numbers(column: pd.Series, name: str) -> pd.Series:
    """A column of floats; text that reads as a number counts as one."""
    values = pd.to_numeric(column, errors="coerce").astype("float64")
    lost = column[column.notna() & values.isna() & ~column.astype(str).str.lower().isin({"nan", "none", "<na>", ""})]
    if len(lost):
        raise AnalysisError(f"column {name!r} holds {some([repr(v) for v in lost.unique()])}, which is not a number")
    return values


def with_planned(runs: pd.DataFrame, planned: pd.DataFrame) -> pd.DataFrame:
    """The runs and each planned run that has no row: what never started, or cannot be read, is accounted for too.

    Such a run is `not_run` unless `planned` has a status for it.
    """
    require(planned, ("run_id",))
    absent = planned[~planned["run_id"].isin(runs["run_id"])]
    if absent.empty:
        return runs
    absent = absent.assign(status=absent["status"].fillna(NOT_RUN) if "status" in absent else NOT_RUN)
    return pd.concat([runs.astype(object), absent.astype(object)], ignore_index=True)


def select(runs: pd.DataFrame, **settings: object) -> pd.DataFrame:
    """The rows with these values, a setting's dots written as double underscores: `model__d_model=128`."""
    chosen = runs
    for name, value in settings.items():
        setting = name.replace("__", ".")
        column = setting if setting in runs.columns else f"config.{setting}"
        require(runs, (column,))
        chosen = chosen[chosen[column] == value]
    return chosen
