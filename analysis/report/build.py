"""The page of an export as it is read: sentence, figure, three bullets; tables, figures, limits; methods at the end."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis.findings import Finding
from analysis.load import Export
from analysis.plots.differences import headline
from analysis.plots.figures import figures_of_export, figures_of_verdict
from analysis.report.render import Block, Bullets, Code, Page, Paragraph, Section, Table
from analysis.report.tables import (
    arms_table,
    control_table,
    costs_table,
    other_tests_table,
    pairs_table,
    rates_table,
    sensitivity_table,
)
from analysis.rule.answer import RULE
from analysis.rule.sentences import MISSING
from analysis.study import Study
from analysis.summary import bullets, tradeoff_of
from analysis.verdict import Verdict
from src.randomness import stream_seed


def page_of(study: Study) -> Page:
    """The page of what an export answers."""
    sections = [_opening(study)]
    many = len(study.verdicts) > 1
    for position, verdict in enumerate(study.verdicts):
        name = f" ({position + 1} of {len(study.verdicts)}: {study.apart(verdict)})" if many else ""
        sections += _experiment(verdict, study.export, name, opens=position == 0)
    if study.tuned_verdicts:
        sections += _tuned(study)
    across = figures_of_export(study.export, study.question.factor, study.question.metric)
    if across.drawn:
        sections.append(Section("Across experiments", list(across.drawn)))
    sections += [_coverage(study), _limits(study), _reproduce(study), _methods(study)]
    return Page(study.title, study.export.sentence, sections)


def _opening(study: Study) -> Section:
    """One sentence an experiment, one figure, three bullets; and what makes an export itself doubtful."""
    if study.refusal is not None:
        refused: list[Block] = [Paragraph(f"Nothing can be judged: {study.refusal}.", "claim")]
        doubts = [finding for finding in study.findings if finding.level == "caution"]
        return Section("", [*refused, *([Bullets(list(map(_sentence, doubts)), "caution")] if doubts else [])])
    verdict = study.verdicts[0]
    blocks: list[Block] = [Paragraph(said, "claim") for said in study.opening]
    drawn = headline(verdict, study.export)
    if drawn is not None:
        blocks.append(drawn)
    blocks.append(Bullets(bullets(verdict)))
    doubts = [f for f in (*study.export.findings, *study.findings) if f.level == "caution" and f.about in _DOUBTS]
    if doubts:
        blocks.append(Bullets([_sentence(finding) for finding in dict.fromkeys(doubts)], "caution"))
    return Section("", blocks)


_DOUBTS = ("export", "refused", "mixture", "tuning")
"""What concerns the export as a whole, and so stands on its first screen; the rest is under Limits."""


def _experiment(verdict: Verdict, export: Export, name: str, opens: bool) -> Iterator[Section]:
    said: list[Block] = [] if opens else [Paragraph(verdict.sentence), Bullets(bullets(verdict))]
    found = (arms_table(verdict), costs_table(verdict), pairs_table(verdict), rates_table(verdict))
    yield Section(f"Table{name}", [*said, *(table for table in found if table is not None)])
    if verdict.control is not None:
        table = control_table(verdict)
        yield Section(f"Control{name}", [Paragraph(verdict.control.sentence), *([table] if table else [])])
    traded = tradeoff_of(verdict)
    if traded is not None:
        yield Section(f"Quality and cache{name}", [Paragraph(traded)])
    gallery = figures_of_verdict(verdict, export)
    yield Section(f"Figures{name}", [*gallery.drawn, *(Paragraph(_sentence(f)) for f in gallery.findings)])
    strip = sensitivity_table(verdict)
    if strip is not None:
        yield Section(f"Other margins{name}", [strip])


def _tuned(study: Study) -> list[Section]:
    assert study.tuning is not None, "tuned verdicts come with their tuning"
    rows = [
        [f"{arm}", f"{row['chosen']:g}", f"{row['mean']:.4f}", f"{row['seeds']}", "yes" if row["at_edge"] else "no"]
        for arm, row in study.tuning.choice.iterrows()
    ]
    header = [study.question.factor, "learning rate", f"{study.question.metric} on tuning seeds", "seeds", "at edge"]
    found = []
    for verdict in study.tuned_verdicts:
        tables = [table for table in (arms_table(verdict), pairs_table(verdict)) if table is not None]
        blocks: list[Block] = [Paragraph(verdict.sentence), Bullets(bullets(verdict)), Table(header, rows), *tables]
        found.append(Section("At tuned learning rates", blocks))
    return found


def _coverage(study: Study) -> Section:
    counts = study.export.manifest["counts"]
    account = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items() if count is not None)
    blocks: list[Block] = [Paragraph(f"Runs: {account}.")]
    if counts["planned"] is None:
        blocks.append(Paragraph("No plan is known: a head count or seed that never started cannot be missed here."))
    for verdict in study.verdicts:
        blocks.append(Paragraph(f"{verdict.coverage.sentence}."))
        left_out = verdict.coverage.left_out
        if len(left_out):
            rows = [
                [
                    f"{row.arm}",
                    f"{row.seed}",
                    str(row.status).replace("_", " "),
                    str(row.reason),
                    str(row.run_id or MISSING),
                ]
                for row in left_out.itertuples(index=False)
            ]
            blocks.append(Table([verdict.factor, "seed", "state", "reason", "run"], rows))
    unreadable = [[item["run_id"], item["reason"]] for item in study.export.manifest["left_out"]]
    if unreadable:
        blocks.append(Table(["cannot be read", "reason"], unreadable))
    if not study.verdicts:
        blocks += _planned_table(study.export)
    return Section("Coverage", blocks)


def _planned_table(export: Export) -> list[Block]:
    if export.planned is None:
        return []
    rows = [
        [entry["run_id"], entry["status"].replace("_", " "), entry["reason"] or ""]
        for entry in export.manifest["planned"]
        if entry["status"] != "finished"
    ]
    return [Table(["planned run", "state", "reason"], rows)] if rows else []


def _methods(study: Study) -> Section:
    """How the sentence was made, and what other tests would have said."""
    blocks: list[Block] = [
        Bullets(
            [
                "Runs are compared when everything but the factor and the seed is alike; other mixtures are split.",
                f"The rule: {RULE}. What is shown of a pair is read off its interval, and the intervals hold "
                "together: worse or better where it leaves out 0, beyond or within the margin where it lies outside or "
                "inside it.",
                "The sentence is the first answer that is shown in full; it claims nothing that an interval does not.",
                "An arm with diverged runs is compared by rank, its diverged runs as the worst of their seeds.",
                "The tests below look at the same differences in other ways; none of them decides.",
            ]
        )
    ]
    rng = np.random.default_rng(stream_seed(study.question.seed, "bootstrap", 0))
    for verdict in study.verdicts:
        table = other_tests_table(verdict, rng)
        if table is not None:
            blocks.append(table)
    blocks.append(Paragraph("How often sentences are wrong, by simulation: analysis/METHODS.md in the repository."))
    return Section("Methods", blocks)


def _limits(study: Study) -> Section:
    findings = [*study.findings, *(finding for verdict in study.verdicts for finding in verdict.findings)]
    told = [finding for finding in findings if finding.about != "coverage"]  # the section above tells it
    items = [_sentence(finding) for finding in dict.fromkeys(told)]
    items.append(
        "These runs speak of the sizes, data, context and training length that they had, and of no other; a difference "
        "between small models need not be one between large ones."
    )
    return Section("Limits", [Bullets(items)])


def _reproduce(study: Study) -> Section:
    export = study.export
    lines = []
    for plan in export.manifest["plans"]:
        lines.append(f"python -m src.train {shlex.join(plan['command'])}")
    lines.append(f"python -m src.export {export.manifest['source']} --out {export.folder}")
    lines.append(f"python -m analysis.report {export.folder}")
    blocks: list[Block] = [Code(lines)]
    code = [
        [str(item.get(name) or MISSING) for name in ("version", "commit", "source_hash", "uncommitted_hash")]
        + [f"{item['runs']}"]
        for item in export.manifest["code"]
    ]
    if code:
        blocks.append(Table(["version", "commit", "sources", "uncommitted", "runs"], code))
    facts = [[name.removeprefix("environment."), ", ".join(values)] for name, values in _environment(export.runs)]
    if facts:
        blocks.append(Table(["environment", "values"], facts))
    blocks.append(Paragraph(f"Source: {export.sentence}; data {', '.join(export.manifest['data']) or MISSING}."))
    return Section("Reproduce", blocks)


_TOLD = ("device_name", "device", "dtype", "threads", "python", "packages.torch", "platform")


def _environment(runs: pd.DataFrame) -> Iterator[tuple[str, list[str]]]:
    for name in (f"environment.{told}" for told in _TOLD):
        values = [str(value) for value in runs[name].dropna().unique()] if name in runs else []
        if values:
            yield name, sorted(values)


def _sentence(finding: Finding) -> str:
    text = finding.text
    is_name = "/" in text.split(" ", 1)[0]  # a metric keeps its own letters
    return f"{text if is_name else text[:1].upper() + text[1:]}."
