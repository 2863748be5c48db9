"""From one study's losses to its conclusion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray as Array

from analysis.findings import AnalysisError
from analysis.rule.answer import CODES, Judged, Status, judge_many, said_of
from analysis.rule.conclusion import (
    AlwaysBetter,
    Better,
    Claim,
    Conclusion,
    Direction,
    Pair,
    Relation,
    Size,
    missing_of,
)
from analysis.rule.critical import pair_indices
from analysis.rule.intervals import rate_of
from analysis.rule.sentences import Wording, sentence_of


def conclude(
    values: Float[Array, "n k"],
    arms: Sequence[Any],
    margin: float,
    *,
    better: Better = "lower",
    diverged: Bool[Array, "n k"] | None = None,
    paired: bool = True,
    ordered: bool = True,
    wording: Wording | None = None,
    resamples: int | None = None,
    control: Any | None = None,
) -> Conclusion:
    """The answer for one study.

    `values`: the metric by seed and arm, NaN where there is none; `arms` in their order, `ordered` False where they
    have none. `diverged`: runs that ended by their own result. `control`: its name, where the last column of `values`
    (beyond the arms) is one; its pairs belong to the family and have no part in the answer. Raises AnalysisError for a
    margin that is none, arms that do not fit, and infinite values.
    """
    values = np.asarray(values, dtype=float)
    everything = [*arms, *([] if control is None else [control])]
    k = len(everything)
    if values.ndim != 2 or values.shape[1] != k or len(set(everything)) != k or not len(arms):
        raise AnalysisError(f"values of shape {values.shape} for arms {everything}: give seeds by arms, each arm once")
    flags = np.zeros(values.shape, dtype=bool) if diverged is None else np.asarray(diverged, dtype=bool)
    worse = np.where(flags, np.nan, values if better == "lower" else -values)
    judged = judge_many(worse[None], margin, flags[None], paired, ordered, resamples, control is not None)
    family = _pairs(judged, everything, margin, 1.0 if better == "lower" else -1.0)
    pairs = tuple(pair for pair in family if control is None or pair.later != control)
    code = CODES[int(judged.code[0])]
    at = int(judged.at[0])
    ended = np.isfinite(worse) | flags
    rates = {arm: rate_of(int(flags[:, c].sum()), int(ended[:, c].sum()), k) for c, arm in enumerate(arms)}
    missing, nearest = missing_of(judged, arms, margin, pairs, ordered) if code == "not_settled" else ((), None)
    draft = Conclusion(
        answer=code,
        at=None if at < 0 else arms[at],
        sentence="",
        claims=_claims(judged, arms),
        more_is_always_better=_always(judged, arms),
        missing=missing,
        nearest=nearest,
        pairs=pairs,
        beside=tuple(pair.beside(control) for pair in family if control is not None and pair.later == control),
        rates=rates,
        margin=margin,
        better=better,
        guarded=bool(judged.intervals.guarded[0]),
        method=judged.intervals.method,
    )
    named = [(arms[a], arms[b]) for a, b in judged.named[0] if a >= 0]
    return replace(draft, sentence=sentence_of(draft, list(arms), named, wording or Wording(), ordered))


def _pairs(judged: Judged, arms: Sequence[Any], margin: float, sign: float) -> tuple[Pair, ...]:
    found, ranks, shown = judged.intervals, judged.ranks, judged.shown_of_all
    p, p_beyond, p_within = found.p[0], found.p_beyond(margin)[0], found.p_within(margin)[0]
    rows = []
    for c, (a, b) in enumerate(zip(*pair_indices(len(arms)), strict=True)):
        direction: Direction = "worse" if shown.worse[0, a, b] else "better" if shown.worse[0, b, a] else "open"
        beyond, within = shown.beyond[0, a, b] or shown.beyond[0, b, a], shown.within[0, a, b]
        size: Size = "beyond" if beyond else "within" if within else "open"
        by_rank = bool(ranks.applies[0, c])
        seeds = int(ranks.worse[0, c] + ranks.better[0, c]) if by_rank else int(found.seeds[0, c])
        if by_rank:
            deciding = zero = float(ranks.p[0, c])
        else:
            zero = float(p[c])
            deciding = float(p_beyond[c]) if beyond else float(p_within[c]) if within else zero
        ends = sorted((sign * found.low[0, c], sign * found.high[0, c]))
        known = bool(np.isfinite(found.mean[0, c]))
        rows.append(
            Pair(
                arms[a],
                arms[b],
                seeds,
                float(sign * found.mean[0, c]),
                float(ends[0]),
                float(ends[1]),
                float(found.sd[0, c]),
                direction,
                size,
                "rank" if by_rank else "mean" if known else "nothing",
                deciding,
                zero,
                int(ranks.worse[0, c]),
                int(ranks.better[0, c]),
            )
        )
    return tuple(rows)


def _claims(judged: Judged, arms: Sequence[Any]) -> tuple[Claim, ...]:
    """What the sentence says, pair by pair."""
    said, found = said_of(judged), judged.intervals
    claims = []
    for c, (a, b) in enumerate(zip(found.earlier, found.later, strict=True)):
        if max(a, b) >= len(arms):  # the control has a sentence of its own
            continue
        relations: list[tuple[bool, Relation]] = [
            (said.worse[0, b, a], "better"),
            (said.worse[0, a, b], "worse"),
            (said.beyond[0, b, a], "better by more than the margin"),
            (said.beyond[0, a, b], "worse by more than the margin"),
            (said.within[0, a, b], "within the margin"),
        ]
        by = "rank" if judged.ranks.applies[0, c] else "mean"
        claims += [Claim(arms[a], arms[b], relation, by) for holds, relation in relations if holds]
    return tuple(claims)


def _always(judged: Judged, arms: Sequence[Any]) -> AlwaysBetter:
    a, b = (int(index) for index in judged.refuting[0])
    status: Status = "refuted" if a >= 0 else "supported" if judged.supported[0] else "open"
    less = np.argwhere(np.triu(judged.shown.gains_less[0], 1))
    steps = [tuple(map(int, pair)) for pair in less]
    steps.sort(key=lambda pair: (pair[1] - pair[0], pair))
    by_margin: Status = "refuted" if steps else "supported" if judged.margin_supported[0] else "open"
    return AlwaysBetter(
        status,
        (arms[a], arms[b]) if a >= 0 else None,
        by_margin,
        (arms[steps[0][0]], arms[steps[0][1]]) if steps else None,
    )
