"""What the notebooks call: an export with its warnings, a claim, and figures in the page."""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path

from IPython.display import Image, Markdown, display

from analysis.load import Export, load
from analysis.plots.figures import Drawn
from analysis.plots.style import looks
from analysis.report.render import Table, table_text
from analysis.study import Study

SAMPLE = Path(__file__).with_name("sample_export")
RESULTS = Path(__file__).parent.parent / "results"
VARIABLE = "HEADCOUNT_EXPORT"


def own_export() -> Export:
    """The export that HEADCOUNT_EXPORT names, else the sample; says which, and warns of what a reader must know."""
    folder = os.environ.get(VARIABLE)
    if folder is None:
        display(Markdown(f"*No {VARIABLE} is set: this is the sample export, which says nothing about heads.*"))
    return opened(Path(folder) if folder else SAMPLE)


def studies() -> list[Export]:
    """The studies in analysis/results/, by name; the sample where there is none yet."""
    found = sorted(path.parent for path in RESULTS.glob("*/export/manifest.json"))
    if not found:
        display(
            Markdown("*No study lies in analysis/results/ yet: this is the sample, which says nothing about heads.*")
        )
    return [opened(folder) for folder in found or [SAMPLE]]


def opened(folder: Path) -> Export:
    """The export in a folder; its name, hash, age and run count are shown, and its findings are warnings."""
    export = load(folder)
    display(Markdown(f"**{export.sentence}**"))
    for finding in export.findings:
        warnings.warn(finding.text, stacklevel=2)
    return export


def show_sentences(study: Study) -> None:
    """The sentence of each experiment, or why there is none."""
    for said in [study.refusal] if study.refusal is not None else study.opening:
        display(Markdown(said))


def show_table(table: Table | None) -> None:
    """A table as the report has it."""
    if table is not None:
        display(Markdown(table_text(table)))


def show_figures(figures: list[Drawn]) -> None:
    """Each figure with its caption."""
    for drawn in figures:
        with looks():
            picture = io.BytesIO()
            drawn.figure.savefig(picture, format="png", dpi=90, facecolor="white")
            display(Markdown(f"**{drawn.title}**"), Image(picture.getvalue()), Markdown(f"*{drawn.caption}*"))
