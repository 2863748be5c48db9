"""The files of a report."""

from __future__ import annotations

import json
from pathlib import Path

from analysis.findings import AnalysisError
from analysis.plots.style import caption_below, looks, save
from analysis.report.answers import Answers
from analysis.report.as_json import json_of
from analysis.report.markdown import FIGURES, figure_files, markdown_of
from analysis.report.page import html_of
from analysis.report.sections import page_of
from src.record import write_atomically

REPORT, MARKDOWN, VERDICT = "report.html", "report.md", "verdict.json"


def write_report(answers: Answers, out: Path) -> Path:
    """Writes report.html, report.md, verdict.json and figures/ into `out`; gives the page's path.

    Raises AnalysisError where the folder cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with looks():
            page = page_of(answers)
            write_atomically(out / REPORT, html_of(page))
            for name, drawn in figure_files(page):
                drawn.figure.axes[0].set_title(drawn.title)
                caption_below(drawn.figure, drawn.caption)
                save(drawn.figure, out / FIGURES, name)
        write_atomically(out / MARKDOWN, markdown_of(page))
        verdict = json.dumps(json_of(answers), indent=1, allow_nan=False)
        write_atomically(out / VERDICT, verdict + "\n")
    except OSError as error:
        raise AnalysisError(f"the report cannot be written to {out}: {error.strerror}; choose another --out") from None
    return out / REPORT
