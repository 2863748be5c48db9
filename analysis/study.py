"""Everything that an export says: its verdicts, at shared and at tuned learning rates, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.compare import LEARNING_RATE, Tuned, tuned
from analysis.findings import AnalysisError, Finding, caution, some
from analysis.load import FINISHED, Export
from analysis.question import Amount, Question, has_learning_rates, question_for
from analysis.verdict import Verdict, judge

SAID_AT_ONCE = 4
"""Experiments whose sentences open a report together; of more, each stands over its own table."""


@dataclass(frozen=True)
class Study:
    """`refusal` is the sentence why nothing could be judged, where `verdicts` is empty.

    `tuned_verdicts` are at each arm's own best learning rate, `tuning` how that was chosen.
    """

    export: Export
    question: Question
    verdicts: tuple[Verdict, ...]
    tuned_verdicts: tuple[Verdict, ...]
    tuning: Tuned | None
    findings: tuple[Finding, ...]
    refusal: str | None = None

    @property
    def title(self) -> str:
        return f"Is more {self.question.factor} always better?"

    @property
    def opening(self) -> list[str]:
        """The sentence of each experiment, or of the first where there are many; at tuned learning rates first."""
        if len(self.verdicts) == 1 and not self.tuned_verdicts:
            return [self.verdicts[0].sentence]
        tuned = [f"At each arm's own best learning rate: {verdict.sentence}" for verdict in self.tuned_verdicts[:1]]
        said = self.verdicts if len(self.verdicts) <= SAID_AT_ONCE else self.verdicts[:1]
        return tuned + [f"With {self.apart(verdict)}: {verdict.sentence}" for verdict in said]

    def apart(self, verdict: Verdict) -> str:
        """What sets one experiment apart from the others."""
        conditions = [other.condition for other in self.verdicts]
        names = [n for n in verdict.condition if len({str(other.get(n)) for other in conditions}) > 1]
        shown = [f"{name}={verdict.condition[name]}" for name in names[:3]]
        return ", ".join(shown) or verdict.condition.get("model.name", "runs")


def study_of(
    export: Export,
    metric: str = "val/loss",
    factor: str | None = None,
    against: int | float | None = None,
    margin: Amount | float | None = None,
    tuning_seeds: Sequence[int] | None = None,
    varying: Sequence[str] = (),
) -> Study:
    """Judges an export; never raises for what its runs lack, but says it."""
    question, findings = question_for(export, metric, factor, against, margin, tuple(varying))
    findings = [*export.findings, *findings]
    try:
        study = judge(export.runs, question, export.steps, export.planned, export.manifest.get("identity"))
    except AnalysisError as error:
        return Study(export, question, (), (), None, tuple(findings), str(error))
    findings += study.findings
    at_best, tuning, why = _at_tuned_rates(export, question, tuning_seeds)
    return Study(export, question, study.verdicts, at_best, tuning, (*findings, *why))


def _at_tuned_rates(
    export: Export, question: Question, seeds: Sequence[int] | None
) -> tuple[tuple[Verdict, ...], Tuned | None, list[Finding]]:
    if not has_learning_rates(export.runs, question.factor):
        return (), None, []
    chosen = list(seeds) if seeds is not None else _tuning_seeds(export)
    varying = (LEARNING_RATE.removeprefix("config."),)
    asked = replace(question, varying=(*question.varying, *varying))
    try:
        tuning = tuned(export.runs, question.factor, question.metric, chosen)
        study = judge(tuning.runs, asked, export.steps, None, export.manifest.get("identity"))
    except AnalysisError as error:
        return (), None, [caution("tuning", f"no comparison at tuned learning rates: {error}")]
    text = (
        f"learning rates were chosen on seeds {some([str(seed) for seed in chosen], 12)}, which are not compared; the "
        "plan of the runs left out by this choice is not counted"
    )
    return study.verdicts, tuning, [Finding("tuning", text), *tuning.findings]


def _tuning_seeds(export: Export) -> list[int]:
    """The first quarter of the seeds, at least one: fixed by their numbers, so that nobody can choose them."""
    finished = export.runs[export.runs["status"] == FINISHED]
    seeds = sorted(int(seed) for seed in finished["seed"].dropna().unique())
    return seeds[: max(1, len(seeds) // 4)]
