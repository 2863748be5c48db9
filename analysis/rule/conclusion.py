"""What one study says: every pair, what is claimed of it, the sentence, and what is missing.

The rule is in analysis.rule.answer, and analysis.rule.conclude fills these. `claims` are the single statements that the
sentence is the conjunction of; each is implied by its pair's interval (or rank test), so that sentence, table and
figure cannot contradict each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from analysis.rule.answer import Code, Judged, Status
from analysis.rule.intervals import Rate

Better = Literal["lower", "higher"]
Direction = Literal["better", "worse", "open"]
Size = Literal["beyond", "within", "open"]
Relation = Literal[
    "better",
    "worse",
    "better by more than the margin",
    "worse by more than the margin",
    "within the margin",
]


@dataclass(frozen=True)
class Pair:
    """Two arms compared. Numbers are metric(later) - metric(earlier) in the metric's unit.

    `direction`, `size`: what is shown of `later`, beside `earlier`: better or worse at all; by more than the margin or
    within it. `by`: 'mean', 'rank' (an arm diverged, so its mean is not used) or 'nothing' (under two shared seeds).
    `p`: the adjusted p that decides: of the margin where the size is shown, else of no difference.
    """

    earlier: Any
    later: Any
    seeds: int
    difference: float
    low: float
    high: float
    sd: float
    direction: Direction
    size: Size
    by: Literal["mean", "rank", "nothing"]
    p: float
    p_no_difference: float
    worse_on: int = 0
    better_on: int = 0

    def beside(self, earlier: Any) -> Pair:
        """The same pair seen from `earlier`: what is said is said of the other arm."""
        if earlier == self.earlier:
            return self
        turned: dict[Direction, Direction] = {"better": "worse", "worse": "better", "open": "open"}
        return replace(
            self,
            earlier=self.later,
            later=self.earlier,
            difference=-self.difference,
            low=-self.high,
            high=-self.low,
            direction=turned[self.direction],
            worse_on=self.better_on,
            better_on=self.worse_on,
        )


@dataclass(frozen=True)
class Claim:
    """One statement about `later` beside `earlier`; true where the true difference keeps to the relation."""

    earlier: Any
    later: Any
    relation: Relation
    by: Literal["mean", "rank"] = "mean"


@dataclass(frozen=True)
class AlwaysBetter:
    """Is more always better? By direction, and by more than the margin at each step; with the pair that refutes."""

    status: Status
    refuted_by: tuple[Any, Any] | None
    by_margin: Status
    by_margin_refuted_by: tuple[Any, Any] | None


@dataclass(frozen=True)
class Missing:
    """Why nothing is settled: 'arms', 'seeds', 'margin' or 'diverged', in words, with the pairs left open."""

    kind: Literal["arms", "seeds", "margin", "diverged"]
    text: str
    pairs: tuple[tuple[Any, Any], ...] = ()


@dataclass(frozen=True)
class Conclusion:
    """Everything that one study says of its arms.

    `at`: the arm of best_at and helps_up_to. `nearest`: of not_settled, the answer that the means point to.
    `guarded`: the intervals are wider because losses look skewed or spreads unequal. `beside`: each arm (`later`)
    compared with the control (`earlier`), in the same family; empty without one.
    """

    answer: Code
    at: Any | None
    sentence: str
    claims: tuple[Claim, ...]
    more_is_always_better: AlwaysBetter
    missing: tuple[Missing, ...]
    nearest: str | None
    pairs: tuple[Pair, ...]
    beside: tuple[Pair, ...]
    rates: dict[Any, Rate]
    margin: float
    better: Better
    guarded: bool
    method: str

    @property
    def family(self) -> str:
        """What holds together: 'all 10 pairs of arms', 'all 15 pairs of arms and control', 'the pair'."""
        count = len(self.pairs) + len(self.beside)
        return "the pair" if count == 1 else f"all {count} pairs of arms{' and control' if self.beside else ''}"

    def pair(self, earlier: Any, later: Any) -> Pair:
        """One pair by its arms. Raises KeyError where they are no pair."""
        for pair in self.pairs:
            if (pair.earlier, pair.later) == (earlier, later):
                return pair
        raise KeyError(f"no pair ({earlier}, {later})")


# What an unsettled study lacks: the answer that its means point to, and the pairs that it would take to show it.
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
    found = judged.intervals
    mean = np.full((found.arms, found.arms), np.nan)
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
