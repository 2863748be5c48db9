"""What one experiment says, and what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from analysis.cells import Cells, Coverage
from analysis.conditions import Condition
from analysis.decision import ALPHA, HELPS, HURTS, MINIMUM_PAIRS, PLATEAU
from analysis.findings import Finding
from analysis.frontier import Frontier
from analysis.shape import Shape
from src.metrics import unit_of

MarginSource = Literal["fixed beforehand", "same data"]
Answer = Literal["yes", "no: it hurts", "no: it levels off", "unsettled"]
MARGIN_SDS = 2.0
"""Seed standard deviations that make the margin where none was fixed beforehand."""


@dataclass(frozen=True)
class Verdict:
    """Everything that one experiment says. Tables are empty, and parts None, where `findings` say why.

    `contrasts`: each arm with the reference. `ladder`: each arm with the one before it. Their columns are
    those of `analysis.contrasts.contrasts`; `ratios` is each arm's cost over the reference's. `cells` are the runs
    that were used, their numbers those that were compared.
    """

    factor: str
    metric: str
    condition: Condition
    reference: Any
    margin: float | None
    margin_source: MarginSource
    common_step: int | None
    arms: pd.DataFrame
    ratios: pd.DataFrame
    contrasts: pd.DataFrame
    ladder: pd.DataFrame
    shape: Shape
    frontiers: dict[str, Frontier]
    cells: Cells
    findings: tuple[Finding, ...]

    @property
    def coverage(self) -> Coverage:
        return self.cells.coverage

    @property
    def unit(self) -> str:
        """What the metric is counted in, given the data of the runs."""
        sizes = self.cells.runs.get("data.vocabulary_size")
        return unit_of(self.metric, of_vectors=sizes is not None and bool(sizes.isna().all()))

    @property
    def answer(self) -> Answer:
        """Is more always better, over the arms that ran?

        Yes needs HELPS on every step of the ladder. No needs a HURTS, or a turn with a rise beyond the margin;
        or a PLATEAU somewhere.
        """
        labels = [label for table in (self.contrasts, self.ladder) if len(table) for label in table["label"]]
        if HURTS in labels or self.turns:
            return "no: it hurts"
        if PLATEAU in labels:
            return "no: it levels off"
        complete = len(self.ladder) == len(self.arms) - 1 > 0 and not self._arms_without_runs
        return "yes" if complete and (self.ladder["label"] == HELPS).all() else "unsettled"

    @property
    def turns(self) -> bool:
        """More is better up to some arm and worse after it, by more than the margin."""
        turn = self.shape.turn
        if turn is None or self.margin is None or turn.seeds < MINIMUM_PAIRS:
            return False
        return turn.p <= ALPHA and turn.rise_low > self.margin

    @property
    def cautions(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.level == "caution")

    @property
    def _arms_without_runs(self) -> list[Any]:
        return [arm for arm in self.coverage.left_out["arm"].unique() if arm not in self.arms.index]


@dataclass(frozen=True)
class Study:
    """The verdicts of a table, largest experiment first, and what holds for the table as a whole."""

    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Question:
    """What is asked of a table.

    `against`: the reference arm; None for the smallest. `margin`: in the metric's unit, fixed beforehand; None
    for MARGIN_SDS seed standard deviations of the same data. `varying`: settings meant to differ between arms.
    `seed` of all random streams.
    """

    metric: str = "val/loss"
    factor: str = "heads"
    against: int | float | None = None
    margin: float | None = None
    varying: tuple[str, ...] = ()
    allow_unequal_tokens: bool = False
    seed: int = 0
