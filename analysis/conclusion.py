"""What one study says: every pair, what is claimed of it, the sentence, and what is missing.

The rule is in analysis.answer, and analysis.conclude fills these. `claims` are the single statements that the
sentence is the conjunction of; each is implied by its pair's interval (or rank test), so that sentence, table and
figure cannot contradict each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from analysis.answer import Code, Status
from analysis.endings import Rate

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
    `guarded`: the intervals are wider because losses look skewed or spreads unequal.
    """

    answer: Code
    at: Any | None
    sentence: str
    claims: tuple[Claim, ...]
    more_is_always_better: AlwaysBetter
    missing: tuple[Missing, ...]
    nearest: str | None
    pairs: tuple[Pair, ...]
    rates: dict[Any, Rate]
    margin: float
    better: Better
    guarded: bool
    method: str

    def pair(self, earlier: Any, later: Any) -> Pair:
        """One pair by its arms. Raises KeyError where they are no pair."""
        for pair in self.pairs:
            if (pair.earlier, pair.later) == (earlier, later):
                return pair
        raise KeyError(f"no pair ({earlier}, {later})")
