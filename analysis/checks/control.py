"""A control: runs outside the factor's arms, with which each arm is compared; quality and cache side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.cells import Cells
from analysis.compare import Group, conditions, plain
from analysis.load import FINISHED
from analysis.question import Margin, Question
from analysis.rule.conclude import conclude
from analysis.rule.conclusion import Pair
from analysis.rule.sentences import Wording, listed
from src.metrics import METRICS

_FOLLOW_THE_CONTROL = ("heads", "kv_heads", "head_dim", "latent_dim", "rope_dim", "regime")
"""Settings that a control may have otherwise without being another experiment: what its own kind derives."""


@dataclass(frozen=True)
class Beside:
    """One arm beside the control. `pair.later` is the arm; `cache`: its cache over the control's, if known."""

    arm: Any
    pair: Pair
    cache: float | None


@dataclass(frozen=True)
class Control:
    """`arms`: each arm beside the control, in one family of its own (all pairs of arms and control, 95%)."""

    name: str
    mean: float
    seeds: int
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


def compare_with_control(
    group: Group,
    controls: pd.DataFrame | None,
    question: Question,
    found: Cells,
    margin: Margin,
    table: pd.DataFrame,
    words: Wording,
) -> Control | None:
    """Each arm of a group beside its control; None where there is none that is otherwise alike."""
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
    own = controls[alike]
    numbers = own[question.metric].astype(float)
    usable = own[(own["status"] == FINISHED) & np.isfinite(numbers)].drop_duplicates("seed")
    if usable.empty:
        return None
    values = found.values.copy()
    name = ",".join(f"{key}={value}" for key, value in question.control if key not in ("heads",))
    by_seed = usable.set_index(usable["seed"].astype(int))[question.metric].astype(float)
    values = values.reindex(sorted({*values.index, *by_seed.index}))
    both = pd.concat([by_seed.reindex(values.index).rename(name), values.astype(float)], axis=1)
    better = "lower" if METRICS[question.metric].better == "lower" else "higher"
    said = conclude(both.to_numpy(), list(both.columns), margin.value, better=better, ordered=False, wording=words)
    cache = float(usable["cache/bytes"].astype(float).mean()) if "cache/bytes" in usable else np.nan
    beside = []
    for arm in found.arms:
        own_cache = float(table.at[arm, "cache/bytes"]) if "cache/bytes" in table else np.nan  # pyright: ignore
        ratio = own_cache / cache if np.isfinite(own_cache) and cache > 0 else None
        beside.append(Beside(arm, said.pair(name, arm), ratio))
    sentence = _sentence(name, beside, margin, words)
    return Control(name, float(by_seed.mean()), len(usable), len(own) - len(usable), tuple(beside), sentence)


def _sentence(name: str, arms: list[Beside], margin: Margin, words: Wording) -> str:
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
        parts.append(f"within {words.amount(margin.value)}: {said(within)}")
    for chosen, word in ((better, "better"), (worse, "worse")):
        if chosen:
            parts.append(f"{word}: {said(chosen)}")
    if rest:
        parts.append(f"not settled: {said(rest)}")
    return f"Beside {name}, {'; '.join(parts)}."
