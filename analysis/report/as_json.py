"""The verdict for programs: verdict.json. A number that is missing or not finite is null."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.claim import claim
from analysis.report.answers import Answers
from analysis.verdict import Verdict

SCHEMA_VERSION = 1


def json_of(answers: Answers) -> dict[str, Any]:
    """Plain values: the question, the export, and each verdict with its tables."""
    manifest = answers.export.manifest
    return plain(
        {
            "schema_version": SCHEMA_VERSION,
            "title": answers.title,
            "question": answers.question,
            "export": {
                "name": answers.export.name,
                "hash": answers.export.hash,
                "exported_at": manifest["exported_at"],
                "source": manifest["source"],
                "counts": manifest["counts"],
                "partial": manifest["partial"],
                "files": manifest["files"],
                "code": manifest["code"],
            },
            "refusal": answers.refusal,
            "verdicts": [_verdict(verdict) for verdict in answers.verdicts],
            "tuned_verdicts": [_verdict(verdict) for verdict in answers.tuned_verdicts],
            "tuning": None if answers.tuning is None else _rows(answers.tuning.choice),
            "findings": answers.findings,
        }
    )


def _verdict(verdict: Verdict) -> dict[str, Any]:
    coverage = verdict.coverage
    return {
        "answer": verdict.answer,
        "claim": claim(verdict),
        "factor": verdict.factor,
        "metric": verdict.metric,
        "condition": verdict.condition,
        "reference": verdict.reference,
        "margin": verdict.margin,
        "margin_source": verdict.margin_source,
        "common_step": verdict.common_step,
        "arms": _rows(verdict.arms),
        "ratios": _rows(verdict.ratios),
        "contrasts": verdict.contrasts.to_dict("records"),
        "ladder": verdict.ladder.to_dict("records"),
        "shape": verdict.shape,
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
