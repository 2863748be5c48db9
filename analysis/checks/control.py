"""A control: runs outside the factor's arms, with which each arm is compared; quality and cache side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.compare import Group, conditions, plain
from analysis.load import FINISHED
from analysis.question import Question
from analysis.rule.conclusion import Conclusion, Pair
from analysis.rule.sentences import Wording, listed

_FOLLOW_THE_CONTROL = ("heads", "kv_heads", "head_dim", "latent_dim", "rope_dim", "regime")
"""Settings that a control may have otherwise without being another experiment: what its own kind derives."""


@dataclass(frozen=True)
class Beside:
    """One arm beside the control. `pair.later` is the arm; `cache`: its cache over the control's, if known."""

    arm: Any
    pair: Pair
    cache: float | None


@dataclass(frozen=True)
class ControlRuns:
    """The runs of a control that are otherwise like the arms'. `values` by seed, NaN where a run `diverged`; `cache`
    in bytes. `left_out`: runs that ended for another reason than their result, or have not ended.
    """

    name: str
    values: pd.Series
    diverged: pd.Series
    left_out: int
    cache: float


@dataclass(frozen=True)
class Control:
    """`arms`: each arm beside the control, in the one family of all pairs. `diverged`: of its runs that ended."""

    name: str
    mean: float
    seeds: int
    diverged: int
    left_out: int
    arms: tuple[Beside, ...]
    sentence: str


def take_controls(table: pd.DataFrame, question: Question) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """The runs of the arms, and those of the control."""
    if not question.control:
        return table, None
    is_control = np.ones(len(table), dtype=bool)
    for name, value in question.control:
        column = name if name in table else f"config.{name}"
        if column in table:
            is_control &= table[column].map(lambda cell, value=value: str(plain(cell)) == value).to_numpy()
        elif name != question.factor:
            return table, None
    if question.factor in table and not dict(question.control).get(question.factor):
        is_control &= table[question.factor].isna().to_numpy()
    if not is_control.any() or is_control.all():
        return table, None
    return table[~is_control], table[is_control]


def control_of(group: Group, controls: pd.DataFrame | None, question: Question) -> ControlRuns | None:
    """The control's runs that fit a group; None where there is none that is otherwise alike and ended."""
    if controls is None:
        return None
    ignored = {name for name, _ in question.control} | {*_FOLLOW_THE_CONTROL, *question.varying}
    settings = conditions(controls, question.factor, question.varying)
    alike = np.ones(len(controls), dtype=bool)
    for name in settings:
        mine = group.condition.get(str(name))
        if name in ignored or mine is None:
            continue
        alike &= settings[name].map(lambda value, mine=mine: value is None or value == mine).to_numpy()
    order = [name for name in ("started_at", "run_id") if name in controls]
    own = controls[alike & controls["seed"].notna()].sort_values(order, kind="stable")
    numbers = own[question.metric].astype(float)
    finished = own["status"] == FINISHED
    counted = own[finished & np.isfinite(numbers)].drop_duplicates("seed")
    lost = own[(own["status"] == "diverged") | (finished & ~np.isfinite(numbers))].drop_duplicates("seed")
    lost = lost[~lost["seed"].isin(counted["seed"])]
    ended = pd.concat([counted, lost])
    if counted.empty:
        return None
    seeds = ended["seed"].astype(int).to_list()
    diverged = pd.Series([False] * len(counted) + [True] * len(lost), index=seeds)
    values = pd.Series(ended[question.metric].astype(float).to_list(), index=seeds).where(~diverged)
    name = ",".join(f"{key}={value}" for key, value in question.control if key not in ("heads",))
    cache = float(counted["cache/bytes"].astype(float).mean()) if "cache/bytes" in counted else np.nan
    return ControlRuns(name, values, diverged, len(own) - len(ended), cache)


def with_control(
    values: pd.DataFrame, diverged: pd.DataFrame, control: ControlRuns
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Seeds by arms and control: the control is the last column, under its name."""
    seeds = sorted({*values.index, *control.values.index})
    ended = control.diverged.reindex(seeds, fill_value=False)
    both = values.reindex(seeds).assign(**{control.name: control.values.reindex(seeds)})
    return both, diverged.reindex(seeds, fill_value=False).assign(**{control.name: ended})


def beside_control(
    control: ControlRuns | None, conclusion: Conclusion | None, table: pd.DataFrame, words: Wording
) -> Control | None:
    """Each arm beside the control, read off the conclusion's own pairs; `table`: one row an arm."""
    if control is None or conclusion is None:
        return None
    beside = []
    for pair in conclusion.beside:
        known = "cache/bytes" in table and pair.later in table.index
        cache = float(table.at[pair.later, "cache/bytes"]) if known else np.nan  # pyright: ignore
        ratio = cache / control.cache if np.isfinite(cache) and control.cache > 0 else None
        beside.append(Beside(pair.later, pair, ratio))
    return Control(
        control.name,
        float(control.values.mean()),
        int(control.values.notna().sum()),
        int(control.diverged.sum()),
        control.left_out,
        tuple(beside),
        _sentence(control.name, beside, conclusion.margin, words),
    )


def _sentence(name: str, arms: list[Beside], margin: float, words: Wording) -> str:
    """'Beside attention=grouped: latent_dim 16 (9% of the cache) and ... lie within 0.01 nats; ... is worse.'"""

    def said(chosen: list[Beside]) -> str:
        return listed(
            [words.arm(b.arm) + ("" if b.cache is None else f" ({b.cache:.3g} of its cache)") for b in chosen]
        )

    within = [b for b in arms if b.pair.size == "within"]
    worse = [b for b in arms if b.pair.direction == "worse" and b not in within]
    better = [b for b in arms if b.pair.direction == "better" and b not in within]
    rest = [b for b in arms if b not in within and b not in worse and b not in better]
    parts = []
    if within:
        parts.append(f"within {words.amount(margin)}: {said(within)}")
    for chosen, word in ((better, "better"), (worse, "worse")):
        if chosen:
            parts.append(f"{word}: {said(chosen)}")
    if rest:
        parts.append(f"not settled: {said(rest)}")
    return f"Beside {name}, {'; '.join(parts)}."
