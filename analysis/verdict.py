"""From the table of runs to verdicts: what each experiment that it holds says. The rule itself: analysis.rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.cells import (
    Cells,
    Coverage,
    arms,
    at_common_step,
    cells,
    findings_of,
    matched,
    matching_findings,
    spread_findings,
    unequal_tokens,
)
from analysis.checks.control import Control, ControlRuns, beside_control, control_of, take_controls, with_control
from analysis.checks.convergence import Convergence, convergence
from analysis.checks.frontier import Frontier, frontier
from analysis.checks.sensitivity import Stretch, sensitivity
from analysis.compare import Condition, Group, mixture, not_alike, refuse_copies, split, varied
from analysis.findings import AnalysisError, Finding, caution, some
from analysis.load import refuse_repeated_ids, typed, with_planned
from analysis.question import NONE, Margin, Question
from analysis.rule.conclude import conclude
from analysis.rule.conclusion import Conclusion, Pair
from analysis.rule.sentences import Wording
from analysis.stats import Pairing, pairing_of, pooled_sd
from src.metrics import METRICS, unit_of
from src.randomness import stream_seed

_FRONTIERS = ("cache/bytes", "cost/flops_per_token", "decode/ms_per_token")
_STREAMS = ("signs", "arms", "shape", "frontier")


@dataclass(frozen=True)
class Verdict:
    """Everything that one experiment says. Tables are empty, and parts None, where `findings` say why.

    `conclusion`: the answer, its sentence and every pair of arms. `ratios`: each arm's cost over the reference's.
    `cells`: the runs that were used, their numbers those that were compared. `varied`: settings that differ between
    arms, by arm. `sensitivity`: the answer as the margin runs over a range. `seed_sd`: pooled within arms.
    `judged`: what the conclusion was drawn from, seeds by arms, the control last; NaN where a run diverged.
    """

    factor: str
    metric: str
    condition: Condition
    reference: Any
    margin: Margin
    common_step: int | None
    arms: pd.DataFrame
    ratios: pd.DataFrame
    conclusion: Conclusion | None
    control: Control | None
    sensitivity: tuple[Stretch, ...]
    convergence: Convergence | None
    varied: dict[str, dict[Any, Any]]
    seed_sd: float
    frontiers: dict[str, Frontier]
    cells: Cells
    judged: pd.DataFrame
    findings: tuple[Finding, ...]

    @property
    def coverage(self) -> Coverage:
        return self.cells.coverage

    @property
    def unit(self) -> str:
        """What the metric is counted in, given the data of the runs."""
        return _unit(self.cells, self.metric)

    @property
    def wording(self) -> Wording:
        return _wording(self.factor, self.unit)

    @property
    def answer(self) -> str:
        return "not_settled" if self.conclusion is None else self.conclusion.answer

    @property
    def sentence(self) -> str:
        """What the report opens with and the terminal says."""
        if self.conclusion is None:
            why = next((f.text for f in self.cautions if f.about == "tokens"), "the runs cannot be compared")
            return f"Not settled: {why}."
        return self.conclusion.sentence

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return () if self.conclusion is None else self.conclusion.pairs

    @property
    def focus(self) -> Any:
        """The arm that the sentence sets the others beside: the best one, or the first that it names."""
        if self.conclusion is None:
            return self.reference
        if self.conclusion.at is not None:
            return self.conclusion.at
        named = [claim.earlier for claim in self.conclusion.claims if claim.by == "mean"]
        return named[0] if self.answer == "not_settled" and named else self.reference

    def pair(self, arm: Any, other: Any) -> Pair | None:
        """Two arms compared, the smaller one first."""
        return next((pair for pair in self.pairs if {pair.earlier, pair.later} == {arm, other}), None)

    @property
    def pairing(self) -> Pairing | None:
        """What sharing seeds gained; None where they are not shared or nothing varies."""
        if self.conclusion is None or not self.conclusion.method.startswith("paired"):
            return None
        try:
            return pairing_of(self.cells.values.to_numpy())
        except AnalysisError:
            return None

    @property
    def cautions(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.level == "caution")


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
    identity: Sequence[str] | None = None,
) -> Judgement:
    """Verdicts of every experiment in the table.

    `steps`: for a comparison at a common step where runs saw unequal tokens, and for convergence. `planned`: every
    planned run (run_id, seed, the factor), so that one that never started is accounted for. `identity`: the settings
    that decide a result, as the export has them. Raises AnalysisError where no experiment can be judged: the sentence
    says what is missing and what can still be said.
    """
    question = question or Question()
    table = typed(with_planned(runs, planned) if planned is not None else runs, question.factor, question.metric)
    arms_runs, controls = take_controls(table, question)
    groups = split(arms_runs, question.factor, [name.removeprefix("config.") for name in question.varying], identity)
    mixed = mixture(groups)
    verdicts, findings = [], [] if mixed is None else [mixed]
    for group in groups:
        try:
            verdicts.append(judge_group(group, question, steps, planned is not None, controls))
        except AnalysisError as error:
            findings.append(caution("refused", f"{group.name}: {error}"))
    if not verdicts:
        raise AnalysisError("; ".join(finding.text for finding in findings))
    return Judgement(tuple(verdicts), tuple(findings))


def judge_group(
    group: Group,
    question: Question,
    steps: pd.DataFrame | None = None,
    planned: bool = False,
    controls: pd.DataFrame | None = None,
) -> Verdict:
    """The verdict of one experiment. Raises AnalysisError where it holds no usable run, or copies of one."""
    refuse_repeated_ids(group.runs)
    settings = varied(group.runs, question.factor, question.varying)
    found = cells(group.runs, question.factor, question.metric, planned)
    refuse_copies(found.runs, question.factor, question.metric, steps)
    findings = [*findings_of(found.coverage), *not_alike(found.runs, question.factor)]
    found, step, comparable, training = _equal_training(found, question, steps)
    findings += training
    table = arms(found, _stream(question.seed, "arms"))
    reference = found.arms[0] if question.against is None else question.against
    if reference not in found.arms:
        raise AnalysisError(f"the reference {reference} has no usable run; {found.coverage.sentence}")
    ratios = matched(table, reference)
    findings += [*matching_findings(ratios), *spread_findings(table)]
    seed_sd = float(np.nan_to_num(pooled_sd(found.values.to_numpy())))
    margin = _margin(found, question, reference, seed_sd)
    findings += _margin_findings(margin)
    conclusion = control = progress = beside = None
    stretches: tuple[Stretch, ...] = ()
    fronts: dict[str, Frontier] = {}
    if comparable:
        beside = control_of(group, controls, question)
        conclusion, stretches, about = _concluded(found, margin, beside)
        findings += about
        control = beside_control(beside, conclusion, table, _words(found))
        progress = _convergence(found, conclusion, steps)
        fronts, front_findings = _frontiers(found, question.seed)
        findings += front_findings
    return Verdict(
        factor=question.factor,
        metric=question.metric,
        condition=group.condition,
        reference=reference,
        margin=margin,
        common_step=step,
        arms=table,
        ratios=ratios,
        conclusion=conclusion,
        control=control,
        sensitivity=stretches,
        convergence=progress,
        varied=settings,
        seed_sd=seed_sd,
        frontiers=fronts,
        cells=found,
        judged=_with_control(found, beside)[0],
        findings=tuple(dict.fromkeys(findings)),
    )


def _stream(seed: int, use: str) -> np.random.Generator:
    return np.random.default_rng(stream_seed(seed, "bootstrap", _STREAMS.index(use)))


def _unit(found: Cells, metric: str) -> str:
    sizes = found.runs.get("data.vocabulary_size")
    return unit_of(metric, of_vectors=sizes is not None and bool(sizes.isna().all()))


def _wording(factor: str, unit: str) -> Wording:
    return Wording(factor, "nats" if unit.startswith("nats") else "" if unit in ("1", "squared distance") else unit)


def _words(found: Cells) -> Wording:
    return _wording(found.factor, _unit(found, found.metric))


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


def _margin(found: Cells, question: Question, reference: Any, seed_sd: float) -> Margin:
    amount = question.amount
    if amount is None:
        return Margin(0.0, NONE)
    if not (np.isfinite(amount.number) and amount.number >= 0):
        raise AnalysisError(f"margin={amount.number}: a margin is a finite number, 0 or more, in the metric's unit")
    mean = float(found.values[reference].mean())
    return amount.margin(_unit(found, found.metric), f"{found.factor}={reference}", mean, seed_sd)


def _margin_findings(margin: Margin) -> list[Finding]:
    if margin.provenance == NONE:
        text = "no margin was named: directions are judged, but no two arms can be shown to be alike"
        return [caution("margin", f"{text}; record one in the sweep before its runs")]
    about = f"the answer was judged against {margin.sentence}"
    return [Finding("margin", about) if margin.provenance.startswith("recorded") else caution("margin", about)]


def _with_control(found: Cells, control: ControlRuns | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Values and which diverged, seeds by arms, the control last."""
    return found.outcomes() if control is None else with_control(*found.outcomes(), control)


def _concluded(
    found: Cells, margin: Margin, control: ControlRuns | None
) -> tuple[Conclusion | None, tuple[Stretch, ...], list[Finding]]:
    """The conclusion over all pairs of arms, the control last. Arms that share no seeds are compared unpaired: said."""
    values, diverged = _with_control(found, control)
    arms = [arm for arm in values.columns if control is None or arm != control.name]
    there = values.notna() | diverged
    shared = there.to_numpy(dtype=int).T @ there.to_numpy(dtype=int)
    np.fill_diagonal(shared, 0)
    paired = bool((shared >= 2).any()) or there.shape[1] < 2
    findings = []
    if not paired and int((there.sum() >= 2).sum()) >= 2:
        findings.append(caution("pairs", "no two arms share two seeds: they are compared unpaired (Welch's errors)"))
    lost = [f"{found.factor}={arm}: {int(n)} of {int(there[arm].sum())}" for arm, n in diverged.sum().items() if n]
    if lost:
        findings.append(caution("outcome", f"diverged runs count as the worst of their seed ({some(lost, 16)})"))
    better = "lower" if METRICS[found.metric].better == "lower" else "higher"
    array, flags = values.to_numpy(), diverged.to_numpy()

    def concluded(value: float) -> Conclusion:
        return conclude(
            array,
            arms,
            value,
            better=better,
            diverged=flags,
            paired=paired,
            wording=_words(found),
            control=None if control is None else control.name,
        )

    conclusion = concluded(margin.value)
    return conclusion, sensitivity(concluded, conclusion), findings


def _convergence(found: Cells, conclusion: Conclusion | None, steps: pd.DataFrame | None) -> Convergence | None:
    """Of the pair that the sentence puts a number to, else of the first and the last arm."""
    if steps is None or conclusion is None or len(found.arms) < 2:
        return None
    named = [(claim.earlier, claim.later) for claim in conclusion.claims if claim.by == "mean"]
    named = [pair for pair in reversed(named) if pair[0] in found.arms and pair[1] in found.arms]
    earlier, later = named[0] if named else (found.arms[0], found.arms[-1])
    return convergence(found, steps, earlier, later)


def _frontiers(usable: Cells, seed: int) -> tuple[dict[str, Frontier], list[Finding]]:
    fronts: dict[str, Frontier] = {}
    found: list[Finding] = []
    for cost in _FRONTIERS:
        try:
            fronts[cost] = frontier(usable, cost, _stream(seed, "frontier"))
        except AnalysisError as error:
            found.append(Finding("frontier", f"no frontier over {cost}: {error}"))
    return fronts, [*found, *(finding for front in fronts.values() for finding in front.findings)]
