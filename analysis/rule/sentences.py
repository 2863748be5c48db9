"""The one sentence of a conclusion, in English, which says what is claimed and no more; and its words and digits.

An amount has no more digits than its interval supports. Missing is a dash, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import Any

import pandas as pd

from analysis.rule.conclusion import Conclusion, Pair

_NOUNS = {"heads": ("head", "heads"), "kv_heads": ("kv-head", "kv-heads"), "layers": ("layer", "layers")}
_MOST_DECIMALS = 12


@dataclass(frozen=True)
class Wording:
    """How a study's arms and amounts are spelled. `factor` None: the arms are labels. `unit` as in '0.02 nats'."""

    factor: str | None = "heads"
    unit: str = "nats"

    @property
    def more(self) -> str:
        """What there is more of: 'heads', 'latent_dim'.

        >>> Wording("kv_heads").more, Wording("latent_dim").more
        ('kv-heads', 'latent_dim')
        """
        return _NOUNS.get(self.factor or "", ("", self.factor or "arms"))[1]

    def arm(self, arm: Any) -> str:
        """One arm by name.

        >>> Wording("heads").arm(1), Wording("heads").arm(16), Wording("latent_dim").arm(8), Wording(None).arm("MHA")
        ('1 head', '16 heads', 'latent_dim 8', 'MHA')
        """
        if self.factor is None or isinstance(arm, str):
            return str(arm)
        if self.factor in _NOUNS:
            return f"{arm} {_NOUNS[self.factor][0 if arm == 1 else 1]}"
        return f"{self.factor} {arm}"

    def is_or_are(self, arm: Any) -> str:
        plural = self.factor in _NOUNS and not isinstance(arm, str) and arm != 1
        return "are" if plural else "is"

    def amount(self, value: float) -> str:
        """A given number, such as a margin, as it was given.

        >>> Wording(unit="nats").amount(0.01), Wording(unit="").amount(0.5)
        ('0.01 nats', '0.5')
        """
        return f"{value:.6g} {self.unit}".strip()

    def measured(self, mean: float, low: float, high: float, margin: float) -> str:
        """'0.021 nats (0.011 to 0.032)': two digits of the half-width, more where rounding would move an end
        across zero or across the margin."""
        decimals = decimals_for(low, high, margin)
        return f"{mean:.{decimals}f} {self.unit}".strip() + f" ({low:.{decimals}f} to {high:.{decimals}f})"


def decimals_for(low: float, high: float, margin: float) -> int:
    """Decimals that show two digits of an interval's half-width and keep each end on its side of 0 and +-margin.

    >>> decimals_for(0.0109, 0.0316, margin=0.01), decimals_for(0.0004, 0.0202, margin=0.0)
    (3, 4)
    """
    half = (high - low) / 2
    if not isfinite(half):
        return 4
    largest = max(abs(low), abs(high), 1e-300)
    digits = 1 - floor(log10(half)) if half > 0 else 3 - floor(log10(largest))
    bounds = (-margin, 0.0, margin)
    for decimals in range(max(0, min(digits, _MOST_DECIMALS)), _MOST_DECIMALS):
        if all(_side(round(end, decimals), bound) == _side(end, bound) for end in (low, high) for bound in bounds):
            return decimals
    return _MOST_DECIMALS


def _side(value: float, bound: float) -> int:
    near = 1e-9 * abs(bound)
    return (value > bound + near) - (value < bound - near)


def listed(names: list[str]) -> str:
    """
    >>> listed(["1 head", "2 heads", "4 heads"])
    '1 head, 2 heads and 4 heads'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# Numbers as people read them, in tables, figures and sentences. Missing is a dash, never 0.
MISSING = "–"  # noqa: RUF001


def difference(value: float, low: float, high: float, margin: float) -> str:
    """A difference with the digits that its interval supports.

    >>> difference(0.021251, 0.0109, 0.0316, 0.01)
    '+0.021 [+0.011, +0.032]'
    """
    if pd.isna(value) or pd.isna(low):
        return MISSING
    digits = decimals_for(float(low), float(high), margin)
    return f"{value:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


def mean_shown(value: float, low: float, high: float) -> str:
    """A mean with the digits that its interval supports; four decimals where it has none.

    >>> mean_shown(1.88123, 1.8781, 1.8843)
    '1.8812 [1.8781, 1.8843]'
    """
    if pd.isna(value):
        return MISSING
    if pd.isna(low):
        return f"{value:.4f}"
    digits = decimals_for(float(low), float(high), 0.0)
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def p_shown(p: float) -> str:
    """A p value with two digits.

    >>> p_shown(0.03125), p_shown(0.00004), p_shown(1.0)
    ('0.031', '< 0.0001', '1')
    """
    if pd.isna(p):
        return MISSING
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


# The one sentence of a conclusion, in English. It says what is claimed and no more.
def sentence_of(
    said: Conclusion, arms: list[Any], named: list[tuple[Any, Any]], words: Wording, ordered: bool = True
) -> str:
    """`named`: the pairs that a number is put to."""
    parts = [_compared(said, *pair, words) for pair in named]
    more, margin = words.more, words.amount(said.margin)
    if said.answer == "no_difference":
        extent = "all" if len(arms) > 2 else "both"
        text = f"No difference that matters: {extent} of {_arms(arms, words)} lie within {margin} of each other."
        refuted = said.more_is_always_better.refuted_by
        return text + (f" {_start(_compared(said, *refuted, words))}." if refuted else "")
    if said.answer == "every_step_helps":
        steps = f"help at every step up to {arms[-1]}" if len(arms) > 2 else "are better"
        return f"More {more} {steps}{_colon(parts)}."
    if said.answer == "worse_throughout":
        if len(arms) == 2:
            return f"More {more} are worse{_colon(parts)}."
        return f"More {more} are worse: every larger number is worse than {words.arm(arms[0])}{_also(parts)}."
    if said.answer == "best_at":
        best = words.arm(said.at)
        rest = "both fewer and more are worse" if ordered else "every other arm is worse"
        return f"{_start(best)} {words.is_or_are(said.at)} best: {rest}{_also(parts)}."
    if said.answer == "helps_up_to":
        return (
            f"More {more} help up to {said.at}{_colon(parts)}; "
            f"every larger number lies within {margin} of {words.arm(said.at)}."
        )
    if said.answer == "no_clear_order":
        return f"More {more} neither help nor hurt throughout: {' and '.join(parts)}."
    return _unsettled(said, arms, parts, words, ordered)


def _unsettled(said: Conclusion, arms: list[Any], parts: list[str], words: Wording, ordered: bool) -> str:
    if len(arms) < 2:
        return f"Not settled: only {words.arm(arms[0])} ran."
    if not any(pair.by != "nothing" for pair in said.pairs):
        return "Not settled: no two arms share two seeds."
    if said.more_is_always_better.refuted_by:
        return f"More {words.more} are not always better: {parts[0]}. Which is best is not settled."
    if parts:
        question = f"whether more {words.more} are always better" if ordered else "which is best"
        return f"{_start(parts[0])}; {question} is not settled."
    question = f"whether more {words.more} are better or worse" if ordered else "which is best"
    return f"Not settled: these runs show no difference, nor that there is none; {question} is open."


def _compared(said: Conclusion, earlier: Any, later: Any, words: Wording) -> str:
    """'16 heads are worse than 1 by 0.021 nats (0.011 to 0.032), whether by more than 0.02 nats is not settled'."""
    pair = said.pair(earlier, later)
    subject = f"{words.arm(later)} {words.is_or_are(later)} {pair.direction} than {_short(earlier, words)}"
    if pair.by == "rank":
        return f"{subject} by rank ({_ranks(said, pair)})"
    sign = 1 if (pair.direction == "worse") == (said.better == "lower") else -1
    ends = sorted((sign * pair.low, sign * pair.high))
    text = f"{subject} by {words.measured(sign * pair.difference, ends[0], ends[1], said.margin)}"
    if said.margin > 0 and pair.size != "beyond":
        size = "less than" if pair.size == "within" else "whether by more than"
        rest = "" if pair.size == "within" else " is not settled"
        text += f", {size} the margin of {words.amount(said.margin)}{rest}"
    return text


def _ranks(said: Conclusion, pair: Pair) -> str:
    on = pair.worse_on if pair.direction == "worse" else pair.better_on
    lost = [said.rates[arm] for arm in (pair.earlier, pair.later) if said.rates[arm].diverged]
    runs = listed([f"{rate.diverged} of {rate.ended}" for rate in lost])
    return f"on {on} of {pair.worse_on + pair.better_on} seeds; {runs} runs diverged and count as worst"


def _arms(arms: list[Any], words: Wording) -> str:
    return listed([*(_short(arm, words) for arm in arms[:-1]), words.arm(arms[-1])]) if len(arms) < 12 else "the arms"


def _short(arm: Any, words: Wording) -> str:
    """'1' beside '16 heads'; the whole name where a bare number would not do."""
    return str(arm)


def _colon(parts: list[str]) -> str:
    return f": {'; '.join(parts)}" if parts else ""


def _also(parts: list[str]) -> str:
    return f"; {'; '.join(parts)}" if parts else ""


def _start(text: str) -> str:
    return text[:1].upper() + text[1:]
