"""The rule: from simultaneous intervals and a margin to one answer of a closed set. All of it stands here.

Level     5% for everything that one study says, over ONE family: all pairs of its arms, and of each arm with the
          control where there is one (analysis.rule.intervals); pairs with an arm that diverged are compared by rank and
          spend their part of it
Shown     later is worse than earlier     the interval lies above 0, or worse by rank
          better                          below 0, or better by rank
          beyond                          the interval lies outside [-margin, margin]
          within                          inside (-margin, margin); never with a margin of 0
Answers   the first that is shown in full, all arms in their order:
          no_difference      every pair within the margin
          every_step_helps   each arm better than the one before
          worse_throughout   every arm worse than the first
          best_at k          every other arm worse than k, which has arms on both sides
          helps_up_to k      k better than every earlier arm, and every later arm within the margin of k
                             (the earliest such k; steps below k need not each be shown)
          no_clear_order     an arm worse than an earlier one AND worse than a later one: neither more nor less
                             helps throughout, nor up to a point
          not_settled        anything else, with what is missing
          Where arms have no order (labels): no_difference; best_at k, better than all others; else not_settled.
Always    `more is always better` is supported where each step is shown better, refuted where any arm is shown worse
          than an earlier one, else open. By the margin: each step better by more than it; any gain shown smaller.

Direction and size are apart: an arm can be shown worse while whether it is so by more than the margin is open.
A difference is oriented so that positive means worse, whichever way the metric runs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray as Array

from analysis.findings import AnalysisError
from analysis.rule.intervals import CONFIDENCE, Intervals, Ranks, compare_ranks, simultaneous

RULE = "all pairs of arms, one family, 95%"
ALPHA = 1 - CONFIDENCE
ROUNDING = 1e-9
"""Of a margin: an end this near to it is at the margin, neither beyond nor within."""

Code = Literal[
    "no_difference",
    "every_step_helps",
    "worse_throughout",
    "best_at",
    "helps_up_to",
    "no_clear_order",
    "not_settled",
]
CODES: tuple[Code, ...] = (
    "no_difference",
    "every_step_helps",
    "worse_throughout",
    "best_at",
    "helps_up_to",
    "no_clear_order",
    "not_settled",
)
NO_DIFFERENCE, EVERY, WORSE, BEST, UP_TO, NO_ORDER, OPEN = range(len(CODES))
Status = Literal["supported", "refuted", "open"]

Square = Bool[Array, "s k k"]


@dataclass(frozen=True)
class Shown:
    """What is shown of each pair; [s, a, b] is about b compared with a. `clarity`: how clearly b is worse than a."""

    worse: Square
    worse_by_mean: Square
    beyond: Square
    within: Square
    gains_less: Square
    clarity: Float[Array, "s k k"]

    def of_first(self, k: int) -> Shown:
        """What is shown among the first k arms."""
        return Shown(*(getattr(self, field.name)[:, :k, :k] for field in fields(self)))

    @classmethod
    def of(cls, intervals: Intervals, ranks: Ranks, margin: float) -> Shown:
        """From arrays with one axis of studies, positive where the later arm is worse."""
        k = intervals.arms if intervals.later.size else 1
        low, high = intervals.low, intervals.high
        with np.errstate(invalid="ignore", divide="ignore"):
            t = np.where(np.isfinite(intervals.mean), intervals.mean / intervals.error, 0.0)
        t = np.where(np.isnan(t), 0.0, t)
        by_rank = ranks.p <= ALPHA
        mean_worse, mean_better = low > 0, high < 0
        up = mean_worse | (by_rank & (ranks.worse > ranks.better))
        down = mean_better | (by_rank & (ranks.better > ranks.worse))
        above, below = margin * (1 + ROUNDING), margin * (1 - ROUNDING)
        inside = (low > -below) & (high < below)

        def square(for_later: Array, for_earlier: Array) -> Array:
            out = np.zeros((len(low), k, k), dtype=for_later.dtype)
            out[:, intervals.earlier, intervals.later] = for_later
            out[:, intervals.later, intervals.earlier] = for_earlier
            return out

        rank_t = np.where(by_rank, 1e-6, 0.0)  # a pair with an interval is named before one with a rank only
        return cls(
            square(up, down),
            square(mean_worse, mean_better),
            square(low > above, high < -above),
            square(inside, inside),
            square(low > -below, high < below),
            square(np.maximum(t, rank_t * up), np.maximum(-t, rank_t * down)),
        )


@dataclass(frozen=True)
class Judged:
    """`code` indexes CODES, `at` is the arm k of best_at and helps_up_to (else -1); shapes [s].

    `shown` is about the arms, `shown_of_all` about arms and control (the last one); without a control they are one.

    `named` [s 2 2]: up to two pairs (a, b) that the sentence puts a number to; -1 where there is none.
    `refuting` [s 2]: the clearest (earlier, later) with later worse, -1 where there is none.
    """

    code: Int[Array, " s"]
    at: Int[Array, " s"]
    named: Int[Array, "s 2 2"]
    refuting: Int[Array, "s 2"]
    supported: Bool[Array, " s"]
    margin_refuted: Bool[Array, " s"]
    margin_supported: Bool[Array, " s"]
    shown: Shown
    shown_of_all: Shown
    intervals: Intervals
    ranks: Ranks


def judge_many(
    values: Float[Array, "s n k"],
    margin: float,
    diverged: Bool[Array, "s n k"] | None = None,
    paired: bool = True,
    ordered: bool = True,
    resamples: int | None = None,
    control: bool = False,
) -> Judged:
    """The answers of many studies; `values` larger where worse. Raises AnalysisError for a margin that is none.

    `control`: the last column is no arm but what each arm is set beside; it has its part in the family, none in the
    answer.
    """
    if not (isfinite(margin) and margin >= 0):
        raise AnalysisError(f"margin={margin}: a margin is a finite number, 0 or more, in the metric's unit")
    values = np.asarray(values, dtype=float)
    diverged = np.zeros(values.shape, dtype=bool) if diverged is None else diverged
    ranks = compare_ranks(values, diverged)
    means = np.where(diverged.any(axis=-2, keepdims=True), np.nan, values)
    intervals = simultaneous(means, paired, np.where(ranks.share > 0, ranks.share, 1.0), resamples)
    shown_of_all = Shown.of(intervals, ranks, margin)
    shown = shown_of_all.of_first(values.shape[-1] - control)
    code, at = _answers(shown, ordered)
    refuting = _clearest(np.where(_upper(shown.worse) & ordered, shown.clarity, 0.0))
    steps = np.arange(shown.worse.shape[-1] - 1)
    several = len(steps) > 0 and ordered
    supported = _all(shown.worse[:, steps + 1, steps], -1) & several
    contradicted = supported & (refuting[:, 0] >= 0)  # only where arms miss different seeds
    code[contradicted & (code == EVERY)] = OPEN
    return Judged(
        code,
        at,
        _named(shown, code, at, refuting),
        refuting,
        supported & ~contradicted,
        _any(_upper(shown.gains_less), (1, 2)) & several,
        _all(shown.beyond[:, steps + 1, steps], -1) & several,
        shown,
        shown_of_all,
        intervals,
        ranks,
    )


def _answers(shown: Shown, ordered: bool) -> tuple[Int[Array, " s"], Int[Array, " s"]]:
    s, k = shown.worse.shape[:2]
    code, at = np.full(s, OPEN), np.full(s, -1)
    if k < 2:
        return code, at
    beats = shown.worse | np.eye(k, dtype=bool)  # [s, a, b]: b worse than a
    best = _all(beats, 2)  # [s a]
    near = shown.within | np.eye(k, dtype=bool)
    before, after = np.tri(k, k, -1, dtype=bool), ~np.tri(k, k, 0, dtype=bool)  # [a, b]: b < a; b > a
    up_to = _all(beats | ~before, 2) & _all(near | ~after, 2)
    inner = np.zeros(k, dtype=bool)
    inner[1:-1] = True
    humps = _any(_any(_upper(shown.worse), 1) & _any(_lower(shown.worse), 1), 1)
    steps = np.arange(k - 1)
    found: list[tuple[int, Array, Array | None]] = [(NO_DIFFERENCE, _all(near, (1, 2)), None)]
    if ordered:
        found += [
            (EVERY, _all(shown.worse[:, steps + 1, steps], 1), None),
            (WORSE, best[:, 0], None),
            (BEST, _any(best & inner, 1), best & inner),
            (UP_TO, _any(up_to & inner, 1), up_to & inner),
            (NO_ORDER, humps, None),
        ]
    else:
        found.append((BEST, _any(best, 1), best))
    for number, holds, arms in reversed(found):
        code[holds] = number
        at[holds] = -1 if arms is None else np.argmax(arms[holds], axis=1)
    return code, at


def _named(shown: Shown, code: Array, at: Array, refuting: Array) -> Int[Array, "s 2 2"]:
    """The pairs that a sentence puts a number to."""
    s, k = shown.worse.shape[:2]
    named = np.full((s, 2, 2), -1)
    steady = np.isin(code, (EVERY, WORSE)) & (shown.worse[:, 0, k - 1] | shown.worse[:, k - 1, 0])
    named[steady, 0] = (0, k - 1)
    best, up_to = code == BEST, code == UP_TO
    clear = np.where(np.eye(k, dtype=bool)[at[best]], -np.inf, shown.clarity[best, at[best]])  # [*, k]
    for slot, side in enumerate((np.arange(k) < at[best][:, None], np.arange(k) > at[best][:, None])):
        other = np.where(_any(side, 1), np.argmax(np.where(side, clear, -np.inf), axis=1), at[best])
        pair = np.sort(np.stack([other, at[best]], axis=1), axis=1)
        named[best, slot] = np.where(_any(side, 1)[:, None], pair, -1)
    named[up_to, 0, 0], named[up_to, 0, 1] = 0, at[up_to]
    humps = code == NO_ORDER
    if humps.any():
        rise = np.where(_upper(shown.worse), shown.clarity, 0.0)[humps]
        fall = np.where(_lower(shown.worse), shown.clarity, 0.0)[humps]
        middle = np.argmax(np.minimum(rise.max(axis=1), fall.max(axis=1)), axis=1)
        rows = np.arange(len(middle))
        named[humps, 0, 0], named[humps, 0, 1] = np.argmax(rise[rows, :, middle], axis=1), middle
        named[humps, 1, 0], named[humps, 1, 1] = middle, np.argmax(fall[rows, :, middle], axis=1)
    unsettled = code == OPEN
    clearest = _clearest(np.where(shown.worse, shown.clarity, 0.0))
    pair = np.where(refuting[:, :1] >= 0, refuting, np.sort(clearest, axis=1))
    named[unsettled, 0] = pair[unsettled]
    return named


def _clearest(clarity: Float[Array, "s k k"]) -> Int[Array, "s 2"]:
    """(a, b) of the largest; -1 where none is above 0."""
    s, k = clarity.shape[:2]
    flat = clarity.reshape(s, k * k)
    at = np.argmax(flat, axis=1)
    pair = np.stack([at // k, at % k], axis=1)
    return np.where(flat.max(axis=1, initial=0.0)[:, None] > 0, pair, -1)


def _upper(square: Array) -> Array:
    """[a, b] with b after a, the rest False."""
    return np.triu(square, 1)


def _lower(square: Array) -> Array:
    return np.tril(square, -1)


def _all(square: Array, axis: int | tuple[int, ...]) -> Array:
    return np.logical_and.reduce(square, axis=axis)


def _any(square: Array, axis: int | tuple[int, ...]) -> Array:
    return np.logical_or.reduce(square, axis=axis)


# What a sentence says, pair by pair: the single statements that it is the conjunction of.


@dataclass(frozen=True)
class Said:
    """[s, a, b]: the sentence says that b is worse than a; worse by more than the margin; that both are alike."""

    worse: Square
    beyond: Square
    within: Square


def said_of(judged: Judged) -> Said:
    """The claims of each study's sentences; [s, a, b] over the arms, and the control last where there is one.

    The refuted or supported 'more is always better' is one of them.
    """
    among, everything = _said_of_arms(judged), judged.shown_of_all
    k, of_all = judged.shown.worse.shape[1], everything.worse.shape[1]
    if of_all == k:
        return among
    beside = np.zeros((of_all, of_all), dtype=bool)
    beside[:k, k:] = beside[k:, :k] = True
    said = Said(
        everything.worse & ~everything.within & beside, np.zeros_like(everything.worse), everything.within & beside
    )
    for whole, part in ((said.worse, among.worse), (said.beyond, among.beyond), (said.within, among.within)):
        whole[:, :k, :k] = part
    return said


def _said_of_arms(judged: Judged) -> Said:
    shown, code, at = judged.shown, judged.code, judged.at
    s, k = shown.worse.shape[:2]
    worse, beyond, within = (np.zeros((s, k, k), dtype=bool) for _ in range(3))
    off = ~np.eye(k, dtype=bool)
    within[code == NO_DIFFERENCE] = off
    if k > 1:
        steps = np.arange(k - 1)
        for row in np.flatnonzero((code == EVERY) | judged.supported):
            worse[row, steps + 1, steps] = True
        worse[code == WORSE, 0, 1:] = True
    best, up_to = np.flatnonzero(code == BEST), np.flatnonzero(code == UP_TO)
    worse[best, at[best]] = off[at[best]]
    earlier = np.arange(k) < at[up_to][:, None]
    worse[up_to, at[up_to]] = earlier
    within[up_to, at[up_to]] = ~earlier & off[at[up_to]]
    named = np.concatenate([judged.named, judged.refuting[:, None]], axis=1)  # [s 3 2]
    for row, slot in np.argwhere(named[..., 0] >= 0):
        for a, b in (named[row, slot], named[row, slot][::-1]):
            if shown.worse[row, a, b]:
                worse[row, a, b] = True
                beyond[row, a, b] |= shown.beyond[row, a, b]
                within[row, a, b] |= shown.within[row, a, b]
    return Said(worse, beyond, within | within.transpose(0, 2, 1))
