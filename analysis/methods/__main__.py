"""`python -m analysis.methods`: simulates, and writes the tables of METHODS.md."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.findings import AnalysisError
from analysis.methods import planned
from analysis.methods.candidates import TRIED_STUDIES, tried_names, tried_row, tried_table
from analysis.methods.rows import (
    ARMS,
    KEPT,
    METHODS,
    Job,
    Row,
    always_table,
    arms_row,
    further_table,
    markdown,
    replaced,
    run,
    sentence_row,
    settled_table,
    wrong_table,
)
from analysis.methods.trials import FURTHER, STUDIES, Cell, cells
from src.errors import UserError, fail

PARTS = ("sentences", "further", "tried", "planned", "arms")


def jobs_of(part: str, studies: int) -> list[Job]:
    """What one part of METHODS.md needs measured."""
    match part:
        case "sentences":
            return [(cell.name, sentence_row, (cell, studies)) for cell in cells()]
        case "further":
            return [(cell.name, sentence_row, (cell, studies)) for cell in further_cells()]
        case "tried":
            return [(name, tried_row, (name, min(studies, TRIED_STUDIES))) for name in tried_names()]
        case "planned":
            return [(name, planned.power_row, (name, min(studies, planned.STUDIES))) for name in planned.names()]
    return [(name, arms_row, (name, studies)) for name in ARMS]


def further_cells() -> list[Cell]:
    return [cell for further in FURTHER for n in further.sizes for cell in further.cells(n)]


def tables_of(part: str, rows: dict[str, Row]) -> dict[str, str]:
    """The tables of one part, by the name of their place in METHODS.md."""
    match part:
        case "sentences":
            return {
                "wrong": wrong_table(rows),
                "settled": settled_table(rows, "normal"),
                "settled_wide": settled_table(rows, "normal, one arm 4x"),
                "settled_diverged": settled_table(rows, "one arm's worst 10% diverge"),
                "always": always_table(rows),
            }
        case "further":
            return {"further": further_table(rows)}
        case "tried":
            return {"tried": tried_table(rows, markdown)}
        case "planned":
            return {"planned": planned.table(rows, markdown)}
    return {name: markdown(rows[name]["header"], rows[name]["lines"]) for name in ARMS}


def main(
    studies: Annotated[int, typer.Option(help="simulated studies a row")] = STUDIES,
    kept: Annotated[Path, typer.Option(help="file of finished rows")] = KEPT,
    workers: Annotated[int, typer.Option(help="processes")] = 2,
    only: Annotated[str, typer.Option(help=f"some of {','.join(PARTS)}, with commas")] = ",".join(PARTS),
    write: Annotated[bool, typer.Option(help="write the tables into METHODS.md")] = True,
) -> None:
    """Simulates every sentence and writes the tables into METHODS.md; exits with 1 where one is wrong too often."""
    try:
        parts = only.split(",")
        if not set(parts) <= set(PARTS):
            raise AnalysisError(f"only={only}: choose among {', '.join(PARTS)}, with commas")
    except UserError as error:
        fail(error)
    rows = run([job for part in parts for job in jobs_of(part, studies)], kept, studies, workers)
    if write:
        text = METHODS.read_text(encoding="utf-8")
        for part in parts:
            for name, table in tables_of(part, rows).items():
                text = replaced(text, name, table)
        METHODS.write_text(text, encoding="utf-8")
    sentences = [*cells(), *further_cells()]
    judged = [rows[cell.name] for cell in sentences if cell.name in rows]
    if not judged:
        return
    worst = max(judged, key=lambda row: row["wrong"])
    typer.echo(f"{len(judged)} rows of sentences; most wrong: {worst['wrong']:.3f} ({worst['name']})")
    if worst["wrong"] > 0.05:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
