"""The files of a report: the page, its Markdown, verdict.json for programs, and the figures."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.checks.convergence import Convergence
from analysis.findings import AnalysisError
from analysis.plots.style import caption_below, looks, save
from analysis.report.build import page_of
from analysis.report.render import FIGURES, figure_files, html_of, markdown_of
from analysis.study import Study
from analysis.summary import bullets
from analysis.verdict import Verdict
from src.record import write_atomically

SCHEMA_VERSION = 2
"""Of verdict.json."""
REPORT, MARKDOWN, VERDICT = "report.html", "report.md", "verdict.json"


def write_report(study: Study, out: Path) -> Path:
    """Writes report.html, report.md, verdict.json and figures/ into `out`; gives the page's path.

    Raises AnalysisError where the folder cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with looks():
            page = page_of(study)
            write_atomically(out / REPORT, html_of(page))
            for name, drawn in figure_files(page):
                drawn.figure.axes[0].set_title(drawn.title)
                caption_below(drawn.figure, drawn.caption)
                save(drawn.figure, out / FIGURES, name)
        write_atomically(out / MARKDOWN, markdown_of(page))
        verdict = json.dumps(json_of(study), indent=1, allow_nan=False)
        write_atomically(out / VERDICT, verdict + "\n")
    except OSError as error:
        raise AnalysisError(f"the report cannot be written to {out}: {error.strerror}; choose another --out") from None
    return out / REPORT


def json_of(study: Study) -> dict[str, Any]:
    """The verdict for programs: the question, the export, each verdict with its tables; what is missing is null."""
    manifest = study.export.manifest
    return plain(
        {
            "schema_version": SCHEMA_VERSION,
            "title": study.title,
            "sentences": study.opening,
            "question": study.question,
            "export": {
                "name": study.export.name,
                "hash": study.export.hash,
                "exported_at": manifest["exported_at"],
                "source": manifest["source"],
                "counts": manifest["counts"],
                "partial": manifest["partial"],
                "files": manifest["files"],
                "code": manifest["code"],
            },
            "refusal": study.refusal,
            "verdicts": [_verdict(verdict) for verdict in study.verdicts],
            "tuned_verdicts": [_verdict(verdict) for verdict in study.tuned_verdicts],
            "tuning": None if study.tuning is None else _rows(study.tuning.choice),
            "findings": study.findings,
        }
    )


def _verdict(verdict: Verdict) -> dict[str, Any]:
    coverage, conclusion = verdict.coverage, verdict.conclusion
    return {
        "answer": verdict.answer,
        "at": None if conclusion is None else conclusion.at,
        "sentence": verdict.sentence,
        "bullets": bullets(verdict),
        "claims": [] if conclusion is None else [asdict(claim) for claim in conclusion.claims],
        "more_is_always_better": None if conclusion is None else conclusion.more_is_always_better,
        "missing": [] if conclusion is None else conclusion.missing,
        "nearest": None if conclusion is None else conclusion.nearest,
        "factor": verdict.factor,
        "metric": verdict.metric,
        "unit": verdict.unit,
        "condition": verdict.condition,
        "varied": verdict.varied,
        "reference": verdict.reference,
        "margin": verdict.margin.value,
        "margin_source": verdict.margin.provenance,
        "margin_asked": verdict.margin.asked,
        "common_step": verdict.common_step,
        "method": None if conclusion is None else conclusion.method,
        "arms": _rows(verdict.arms),
        "ratios": _rows(verdict.ratios),
        "pairs": [asdict(pair) for pair in verdict.pairs],
        "diverged": {} if conclusion is None else conclusion.rates,
        "sensitivity": verdict.sensitivity,
        "control": verdict.control,
        "convergence": None if verdict.convergence is None else _convergence(verdict.convergence),
        "frontiers": {
            cost: {"knee": front.knee, "knee_shares": front.knee_shares, "points": _rows(front.points)}
            for cost, front in verdict.frontiers.items()
        },
        "coverage": {
            "planned": coverage.planned,
            "used": coverage.used,
            "sentence": coverage.sentence,
            "left_out": coverage.left_out.to_dict("records"),
            "repeats": coverage.repeats.to_dict("records"),
            "unplaced": coverage.unplaced,
        },
        "findings": verdict.findings,
    }


def _convergence(progress: Convergence) -> dict[str, Any]:
    return {
        "earlier": progress.earlier,
        "later": progress.later,
        "shrinks": progress.shrinks,
        "still_falls": progress.still_falls,
        "improves_per_step": progress.per_step,
        "gap": progress.gap.to_dict("records"),
    }


def plain(value: Any) -> Any:
    """JSON's own types: keys as text, NumPy's numbers as Python's, tables' missing values as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if value is None or value is pd.NA:
        return None
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool) else str(value)


def _rows(table: pd.DataFrame) -> list[dict[Any, Any]]:
    """A table indexed by arm, the arm in a column of its own."""
    return table.rename_axis("arm").reset_index().to_dict("records")
