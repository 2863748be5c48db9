"""What an unsettled study lacks: the answer that its means point to, and the pairs that it would take to show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analysis.answer import Judged
from analysis.conclusion import Missing, Pair


@dataclass(frozen=True)
class Pattern:
    """An answer and what it takes: (a, b) with b worse than a, and pairs within the margin; indices of arms."""

    name: str
    at: int = -1
    worse: list[tuple[int, int]] = field(default_factory=list)
    within: list[tuple[int, int]] = field(default_factory=list)


def patterns(k: int, margin: float, ordered: bool) -> list[Pattern]:
    """Every answer that k arms can have, in the order of the rule."""
    found = []
    if margin > 0:
        found.append(Pattern("no_difference", within=[(a, b) for a in range(k) for b in range(a + 1, k)]))
    if not ordered:
        return found + [Pattern("best_at", at, worse=[(at, b) for b in range(k) if b != at]) for at in range(k)]
    found.append(Pattern("every_step_helps", worse=[(a + 1, a) for a in range(k - 1)]))
    found.append(Pattern("worse_throughout", worse=[(0, b) for b in range(1, k)]))
    found += [Pattern("best_at", at, worse=[(at, b) for b in range(k) if b != at]) for at in range(1, k - 1)]
    if margin > 0:
        found += [
            Pattern("helps_up_to", at, [(at, a) for a in range(at)], [(at, b) for b in range(at + 1, k)])
            for at in range(1, k - 1)
        ]
    return found


def missing_of(
    judged: Judged, arms: Sequence[Any], margin: float, pairs: tuple[Pair, ...], ordered: bool
) -> tuple[tuple[Missing, ...], str | None]:
    """The reasons, and the nearest answer ('best_at 4'), of the first study. None where its means follow no pattern."""
    k = len(arms)
    if k < 2:
        return (Missing("arms", f"only one arm ({arms[0]}) has runs: there is nothing to compare it with"),), None
    alone = tuple((pair.earlier, pair.later) for pair in pairs if pair.by == "nothing")
    lost = tuple((pair.earlier, pair.later) for pair in pairs if pair.by == "rank" and pair.direction == "open")
    reasons = []
    if alone:
        reasons.append(Missing("seeds", f"{len(alone)} pairs of arms share under two seeds", alone))
    if lost:
        text = f"{len(lost)} pairs have an arm that diverged and are not settled by rank"
        reasons.append(Missing("diverged", text, lost))
    name, still_open = _nearest(judged, k, margin, ordered)
    named = tuple((arms[min(pair)], arms[max(pair)]) for pair in still_open)
    named = tuple(pair for pair in named if pair not in alone and pair not in lost)
    if named or not reasons:
        fallback = tuple((pair.earlier, pair.later) for pair in pairs if pair.direction == "open")
        reasons.append(Missing("seeds", "more seeds would narrow the intervals", named or fallback))
    if margin == 0:
        text = "with a margin of 0 no two arms can be shown to be alike; name the smallest difference that matters"
        reasons.append(Missing("margin", text))
    if name is None:
        return tuple(reasons), None
    return tuple(reasons), name.name if name.at < 0 else f"{name.name} {arms[name.at]}"


def _nearest(judged: Judged, k: int, margin: float, ordered: bool) -> tuple[Pattern | None, list[tuple[int, int]]]:
    """The pattern that fits the means and lacks the fewest pairs, and these."""
    mean = np.full((k, k), np.nan)
    found = judged.intervals
    mean[found.earlier, found.later], mean[found.later, found.earlier] = found.mean[0], -found.mean[0]
    shown, best = judged.shown, None
    for pattern in patterns(k, margin, ordered):
        fits = all(not mean[pair] <= 0 or shown.worse[0][pair] for pair in pattern.worse)
        fits &= all(not abs(mean[pair]) >= margin for pair in pattern.within)
        fits &= not any(shown.worse[0][b, a] for a, b in pattern.worse)
        lacking = [pair for pair in pattern.worse if not shown.worse[0][pair]]
        lacking += [pair for pair in pattern.within if not shown.within[0][pair]]
        if fits and (best is None or len(lacking) < len(best[1])):
            best = pattern, lacking
    return (None, []) if best is None else best
