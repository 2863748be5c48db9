"""`python -m analysis.report exports/<name>`: report.html, report.md, verdict.json and figures/."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.findings import AnalysisError
from analysis.load import load
from analysis.report.answers import Answers, answers_of
from analysis.report.write import write_report
from src.errors import UserError, fail


def main(
    export: Annotated[Path, typer.Argument(help="the folder of an export: exports/<name>")],
    out: Annotated[Path | None, typer.Option(help="where the report goes; into the export by default")] = None,
    metric: Annotated[str, typer.Option(help="what is compared")] = "val/loss",
    factor: Annotated[str | None, typer.Option(help="what varies; the sweep's own by default")] = None,
    against: Annotated[float | None, typer.Option(help="the reference count; the smallest by default")] = None,
    margin: Annotated[float | None, typer.Option(help="the smallest difference that matters")] = None,
    tuning_seeds: Annotated[str | None, typer.Option(help="seeds that choose learning rates, as 0,1")] = None,
) -> None:
    """Judges an export and writes what it says, for people and for programs."""
    try:
        seeds = None if tuning_seeds is None else _seeds(tuning_seeds)
        reference = int(against) if against is not None and against.is_integer() else against
        answers = answers_of(load(export), metric, factor, reference, margin, seeds)
        target = write_report(answers, out if out is not None else export)
    except UserError as error:
        fail(error)
    typer.echo(_said(answers))
    typer.echo(f"{target}")
    if answers.refusal is not None:
        raise typer.Exit(1)


def _said(answers: Answers) -> str:
    if answers.refusal is not None:
        return f"nothing can be judged: {answers.refusal}"
    return "\n\n".join(answers.opening)


def _seeds(text: str) -> list[int]:
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise AnalysisError(f"tuning-seeds={text!r}: give whole numbers with commas, such as 0,1") from None


if __name__ == "__main__":
    typer.run(main)
