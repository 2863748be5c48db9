"""The page of an export, in the order in which it is read: claim, table, figures, coverage, methods, limits, how."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pandas as pd

from analysis.findings import Finding
from analysis.labels import MINIMUM_PAIRS
from analysis.load import Export
from analysis.numbers import MISSING
from analysis.plots.figures import figures_of_export, figures_of_verdict
from analysis.report.page import Block, Bullets, Code, Page, Paragraph, Section, Table
from analysis.report.tables import arms_table, contrasts_table, costs_table, reasons
from analysis.study import Study
from analysis.summary import claim
from analysis.verdict import MARGIN_SDS, Verdict


def page_of(study: Study) -> Page:
    """The page of what an export answers."""
    sections = [_opening(study)]
    many = len(study.verdicts) > 1
    for position, verdict in enumerate(study.verdicts):
        name = f" ({position + 1} of {len(study.verdicts)}: {study.apart(verdict)})" if many else ""
        said = position < len(study.opening)
        sections += _experiment(verdict, study.export, name, was_said=said)
    if study.tuned_verdicts:
        sections += _tuned(study)
    across = figures_of_export(study.export, study.question.factor, study.question.metric)
    if across.drawn:
        sections.append(Section("Across experiments", list(across.drawn)))
    sections += [_coverage(study), _methods(study), _limits(study), _reproduce(study)]
    return Page(study.title, study.export.sentence, sections)


def _opening(study: Study) -> Section:
    if study.refusal is not None:
        blocks: list[Block] = [Paragraph(f"Nothing can be judged: {study.refusal}.", "claim")]
    else:
        blocks = [Paragraph(said, "claim") for said in study.opening]
    cautions = [finding for finding in study.findings if finding.level == "caution"]
    if study.verdicts:
        cautions += study.verdicts[0].cautions
    if cautions:
        blocks.append(Bullets([_sentence(finding) for finding in dict.fromkeys(cautions)], "caution"))
    return Section("", blocks)


def _experiment(verdict: Verdict, export: Export, name: str, was_said: bool) -> Iterator[Section]:
    said: list[Block] = [] if was_said else [Paragraph(claim(verdict))]
    tables = [*said, *_tables(verdict)]
    yield Section(f"Table{name}", tables)
    gallery = figures_of_verdict(verdict, export)
    yield Section(f"Figures{name}", [*gallery.drawn, *(Paragraph(_sentence(f)) for f in gallery.findings)])


def _tables(verdict: Verdict) -> list[Block]:
    found = (arms_table(verdict), costs_table(verdict), contrasts_table(verdict))
    why = reasons(verdict)
    return [*(table for table in found if table is not None), *([Bullets(why)] if why else [])]


def _tuned(study: Study) -> list[Section]:
    assert study.tuning is not None, "tuned verdicts come with their tuning"
    rows = [
        [f"{arm}", f"{row['chosen']:g}", f"{row['mean']:.4f}", f"{row['seeds']}", "yes" if row["at_edge"] else "no"]
        for arm, row in study.tuning.choice.iterrows()
    ]
    header = [
        study.question.factor,
        "learning rate",
        f"{study.question.metric} on tuning seeds",
        "seeds",
        "at edge",
    ]
    found = []
    for verdict in study.tuned_verdicts:
        blocks: list[Block] = [Paragraph(claim(verdict)), Table(header, rows), *_tables(verdict)]
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
    margins = [verdict for verdict in study.verdicts if verdict.margin is not None]
    given = bool(margins) and margins[0].margin_source == "fixed beforehand"
    source = "fixed before the runs" if given else f"{MARGIN_SDS:g} seed standard deviations of the same data"
    return Section(
        "Methods",
        [
            Bullets(
                [
                    "Runs are compared when everything but the factor and the seed is alike; other mixtures are split.",
                    "Differences are paired by seed: runs of one seed see the same batches in the same order.",
                    "Intervals are paired t intervals: of the kinds tried, the only one near 95% coverage at 6 seeds.",
                    f"Labels compare the interval with a margin ({source}): HELPS and HURTS lie beyond it, PLATEAU "
                    "inside it (90% interval, two one-sided tests), all else is INCONCLUSIVE.",
                    f"p values are sign flips of all contrasts together; no label under {MINIMUM_PAIRS} pairs.",
                    "'Always better' needs HELPS on every step of the ladder.",
                ]
            ),
            Paragraph("How often these rules err, measured by simulation: analysis/METHODS.md in the repository."),
        ],
    )


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
