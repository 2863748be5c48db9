"""The one sentence of a conclusion, in English. It says what is claimed and no more."""

from __future__ import annotations

from typing import Any

from analysis.conclusion import Conclusion, Pair
from analysis.wording import Wording, listed


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
