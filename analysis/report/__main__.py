"""`python -m analysis.report exports/<name>`: report.html, report.md, verdict.json and figures/."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.findings import AnalysisError
from analysis.load import load
from analysis.question import parsed_margin
from analysis.report.write import write_report
from analysis.study import Study, study_of
from src.errors import UserError, fail


def main(
    export: Annotated[Path, typer.Argument(help="the folder of an export: exports/<name>")],
    out: Annotated[Path | None, typer.Option(help="where the report goes; into the export by default")] = None,
    metric: Annotated[str, typer.Option(help="what is compared")] = "val/loss",
    factor: Annotated[str | None, typer.Option(help="what varies; the sweep's own by default")] = None,
    against: Annotated[float | None, typer.Option(help="the reference count; the smallest by default")] = None,
    margin: Annotated[
        str | None, typer.Option(help="the smallest difference that matters: 0.01, '0.02 bits', 1%, '2 sd'")
    ] = None,
    varying: Annotated[str | None, typer.Option(help="settings that may differ between arms, with commas")] = None,
    tuning_seeds: Annotated[str | None, typer.Option(help="seeds that choose learning rates, as 0,1")] = None,
) -> None:
    """Judges an export and writes what it says, for people and for programs."""
    try:
        seeds = None if tuning_seeds is None else _seeds(tuning_seeds)
        reference = int(against) if against is not None and against.is_integer() else against
        study = study_of(
            load(export),
            metric,
            factor,
            reference,
            None if margin is None else parsed_margin(margin),
            seeds,
            () if varying is None else varying.split(","),
        )
        target = write_report(study, out if out is not None else export)
    except UserError as error:
        fail(error)
    typer.echo(_said(study))
    typer.echo(f"{target}")
    if study.refusal is not None:
        raise typer.Exit(1)


def _said(study: Study) -> str:
    if study.refusal is not None:
        return f"nothing can be judged: {study.refusal}"
    return "\n\n".join(study.opening)


def _seeds(text: str) -> list[int]:
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise AnalysisError(f"tuning-seeds={text!r}: give whole numbers with commas, such as 0,1") from None


if __name__ == "__main__":
    typer.run(main)
