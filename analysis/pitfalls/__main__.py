"""`python -m analysis.pitfalls exports/<name>`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from analysis.findings import AnalysisError
from analysis.load import load
from analysis.pitfalls.conditions import dropped_failures, same_time, shared_learning_rate
from analysis.pitfalls.pitfall import Pitfall
from analysis.pitfalls.seeds import best_of_seeds, not_paired, one_seed, sd_over_n
from analysis.report.answers import Answers, answers_of
from src.errors import UserError, fail


def pitfalls_of(answers: Answers) -> list[Pitfall]:
    """Every demonstration, on the largest experiment of an export. Raises AnalysisError where nothing was judged."""
    if answers.refusal is not None:
        raise AnalysisError(f"there is no right conclusion to set a wrong one against: {answers.refusal}")
    verdict, export = answers.verdicts[0], answers.export
    return [
        one_seed(verdict),
        best_of_seeds(verdict),
        sd_over_n(verdict),
        not_paired(verdict),
        shared_learning_rate(answers),
        same_time(verdict, export),
        dropped_failures(verdict),
    ]


def lines(pitfalls: list[Pitfall], width: int = 100) -> Iterator[str]:
    """The demonstrations as text."""
    for number, pitfall in enumerate(pitfalls, start=1):
        yield f"{number}. {pitfall.name} ({pitfall.sign})"
        for word, text in (("mistake", pitfall.mistake), ("wrong", pitfall.wrong), ("right", pitfall.right)):
            if text:
                yield textwrap.fill(text, width, initial_indent=f"   {word:8}", subsequent_indent=" " * 11)
        yield ""


def main(
    export: Annotated[Path, typer.Argument(help="the folder of an export: exports/<name>")],
    metric: Annotated[str, typer.Option(help="what is compared")] = "val/loss",
    factor: Annotated[str | None, typer.Option(help="what varies; the sweep's own by default")] = None,
) -> None:
    """Shows what wrong methods would have concluded from these runs, each beside the right one."""
    try:
        answers = answers_of(load(export), metric, factor)
        shown = pitfalls_of(answers)
    except UserError as error:
        fail(error)
    typer.echo(f"{answers.export.sentence}\n")
    for line in lines(shown):
        typer.echo(line)


if __name__ == "__main__":
    typer.run(main)
