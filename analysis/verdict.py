"""From the table of runs to verdicts: what each experiment that it holds says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Literal

import numpy as np
import pandas as pd

from analysis.arms import arms, matched, matching_findings, spread_findings
from analysis.cells import Cells, Coverage, at_common_step, cells, findings_of, unequal_tokens
from analysis.compare import Condition, Group, mixture, not_alike, split
from analysis.contrasts import Against, contrasts
from analysis.findings import AnalysisError, Finding, caution, some
from analysis.frontier import Frontier, frontier
from analysis.labels import ALPHA, HELPS, HURTS, MINIMUM_PAIRS, PLATEAU
from analysis.load import typed, with_planned
from analysis.question import Question
from analysis.shape import Shape, shape
from analysis.stats import pooled_sd, smallest_p
from src.metrics import unit_of
from src.randomness import stream_seed

MarginSource = Literal["fixed beforehand", "same data"]
Answer = Literal["yes", "no: it hurts", "no: it levels off", "unsettled"]
MARGIN_SDS = 2.0
"""Seed standard deviations that make the margin where none was fixed beforehand."""
_FRONTIERS = ("cache/bytes", "cost/flops_per_token", "decode/ms_per_token")
_STREAMS = ("signs", "arms", "shape", "frontier")


@dataclass(frozen=True)
class Verdict:
    """Everything that one experiment says. Tables are empty, and parts None, where `findings` say why.

    `contrasts`: each arm with the reference. `ladder`: each arm with the one before it. Their columns are
    those of `analysis.labels.contrasts`; `ratios` is each arm's cost over the reference's. `cells` are the runs
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
class Judgement:
    """The verdicts of a table, largest experiment first, and what holds for the table as a whole."""

    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...]


def judge(
    runs: pd.DataFrame,
    question: Question | None = None,
    steps: pd.DataFrame | None = None,
    planned: pd.DataFrame | None = None,
) -> Judgement:
    """Verdicts of every experiment in the table.

    `steps`: for a comparison at a common step where runs saw unequal tokens. `planned`: every planned run
    (run_id, seed, the factor), so that one that never started is accounted for. Raises AnalysisError where
    no experiment can be judged: the sentence says what is missing and what can still be said.
    """
    question = question or Question()
    if question.margin is not None and not (isfinite(question.margin) and question.margin > 0):
        raise AnalysisError(f"margin={question.margin}: a margin is a finite number above 0, in the metric's unit")
    table = typed(with_planned(runs, planned) if planned is not None else runs, question.factor, question.metric)
    groups = split(table, question.factor, [name.removeprefix("config.") for name in question.varying])
    mixed = mixture(groups)
    verdicts, findings = [], [] if mixed is None else [mixed]
    for group in groups:
        try:
            verdicts.append(judge_group(group, question, steps, planned is not None))
        except AnalysisError as error:
            findings.append(caution("refused", f"{group.name}: {error}"))
    if not verdicts:
        raise AnalysisError("; ".join(finding.text for finding in findings))
    return Judgement(tuple(verdicts), tuple(findings))


def judge_group(group: Group, question: Question, steps: pd.DataFrame | None = None, planned: bool = False) -> Verdict:
    """The verdict of one experiment. Raises AnalysisError where it holds no usable run."""
    found = cells(group.runs, question.factor, question.metric, planned)
    findings = [*findings_of(found.coverage), *not_alike(found.runs, question.factor)]
    found, step, comparable, training = _equal_training(found, question, steps)
    findings += training
    table = arms(found, _stream(question.seed, "arms"))
    reference = found.arms[0] if question.against is None else question.against
    if reference not in found.arms:
        raise AnalysisError(f"the reference {reference} has no usable run; {found.coverage.sentence}")
    ratios = matched(table, reference)
    findings += [*matching_findings(ratios), *spread_findings(table)]
    margin, source, margin_findings = _margin(found, question.margin)
    findings += margin_findings
    against_reference, ladder = pd.DataFrame(), pd.DataFrame()
    if comparable and margin is not None:
        against_reference, why = _contrasts(found, reference, margin, question.seed)
        ladder, _ = _contrasts(found, "previous", margin, question.seed)
        findings += why
    form = shape(found, _stream(question.seed, "shape")) if comparable else Shape(None, None, None, ())
    fronts, front_findings = _frontiers(found, question.seed) if comparable else ({}, [])
    return Verdict(
        factor=question.factor,
        metric=question.metric,
        condition=group.condition,
        reference=reference,
        margin=margin,
        margin_source=source,
        common_step=step,
        arms=table,
        ratios=ratios,
        contrasts=against_reference,
        ladder=ladder,
        shape=form,
        frontiers=fronts,
        cells=found,
        findings=tuple(dict.fromkeys([*findings, *form.findings, *front_findings])),
    )


def _stream(seed: int, use: str) -> np.random.Generator:
    return np.random.default_rng(stream_seed(seed, "bootstrap", _STREAMS.index(use)))


def _equal_training(
    found: Cells, question: Question, steps: pd.DataFrame | None
) -> tuple[Cells, int | None, bool, list[Finding]]:
    """The cells to compare, at a common step if need be; and whether they may be compared at all."""
    if not question.metric.startswith(("val/", "train/loss")):
        return found, None, True, []
    unequal = unequal_tokens(found)
    if unequal is None or unequal.level == "note" or question.allow_unequal_tokens:
        return found, None, True, [] if unequal is None else [unequal]
    if steps is None:
        way_out = "give the table of steps to compare at the last step that all share; until then nothing is compared"
        return found, None, False, [replace(unequal, text=f"{unequal.text}; {way_out}")]
    try:
        common = at_common_step(found, steps)
    except AnalysisError as error:
        return found, None, False, [replace(unequal, text=f"{unequal.text}; {error}; nothing is compared")]
    return common.cells, common.step, True, [unequal, common.finding]


def _margin(found: Cells, given: float | None) -> tuple[float | None, MarginSource, list[Finding]]:
    if given is not None:
        return given, "fixed beforehand", []
    sd = float(pooled_sd(found.values.to_numpy()))
    if not sd > 0:
        text = "no arm has two seeds that differ, so no margin can be taken from the data, and no label be given"
        return None, "same data", [caution("margin", f"{text}; fix a margin beforehand, and run more seeds")]
    text = f"no margin was fixed beforehand: {MARGIN_SDS:g} seed standard deviations of the same data are used"
    return MARGIN_SDS * sd, "same data", [caution("margin", text)]


def _contrasts(found: Cells, against: Against, margin: float, seed: int) -> tuple[pd.DataFrame, list[Finding]]:
    if len(found.arms) < 2:
        only = f"{found.factor}={found.arms[0]}"
        return pd.DataFrame(), [
            caution("contrasts", f"only {only} has usable runs: there is nothing to compare it with")
        ]
    try:
        table = contrasts(found, against, margin, _stream(seed, "signs"))
    except AnalysisError as error:
        return pd.DataFrame(), [caution("contrasts", str(error))]
    few = table[table["pairs"] < MINIMUM_PAIRS]
    found_out = []
    if len(few):
        steps = some([f"{row.fewer} to {row.more}: {row.pairs}" for row in few.itertuples()])
        most = int(few["pairs"].max())
        text = f"under {MINIMUM_PAIRS} pairs ({steps}) no sign-flip p can fall below {smallest_p(most):.3g}: no label"
        found_out.append(caution("pairs", text))
    compared = {*table["fewer"], *table["more"]}
    alone = [str(arm) for arm in found.arms if arm not in compared]
    if alone:
        found_out.append(caution("pairs", f"{some(alone)} share under two seeds with their partner: not compared"))
    return table, found_out


def _frontiers(usable: Cells, seed: int) -> tuple[dict[str, Frontier], list[Finding]]:
    fronts: dict[str, Frontier] = {}
    found: list[Finding] = []
    for cost in _FRONTIERS:
        try:
            fronts[cost] = frontier(usable, cost, _stream(seed, "frontier"))
        except AnalysisError as error:
            found.append(Finding("frontier", f"no frontier over {cost}: {error}"))
    return fronts, [*found, *(finding for front in fronts.values() for finding in front.findings)]
