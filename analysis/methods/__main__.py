"""`python -m analysis.methods`: see analysis.methods.rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.methods import planned
from analysis.methods.candidates import TRIED_STUDIES, tried_names, tried_row, tried_table
from analysis.methods.rows import (
    ARMS,
    KEPT,
    METHODS,
    Job,
    always_table,
    arms_row,
    markdown,
    replaced,
    run,
    sentence_row,
    settled_table,
    wrong_table,
)
from analysis.methods.trials import STUDIES, cells


def main(
    studies: Annotated[int, typer.Option(help="simulated studies a row")] = STUDIES,
    kept: Annotated[Path, typer.Option(help="file of finished rows")] = KEPT,
    workers: Annotated[int, typer.Option(help="processes")] = 2,
    write: Annotated[bool, typer.Option(help="write the tables into METHODS.md")] = True,
) -> None:
    """Simulates every sentence and writes the tables into METHODS.md; exits with 1 where one is wrong too often."""
    jobs: list[Job] = [(cell.name, sentence_row, (cell, studies)) for cell in cells()]
    jobs += [(name, tried_row, (name, min(studies, TRIED_STUDIES))) for name in tried_names()]
    jobs += [(name, planned.power_row, (name, min(studies, planned.STUDIES))) for name in planned.names()]
    jobs += [(name, arms_row, (name, studies)) for name in ARMS]
    rows = run(jobs, kept, studies, workers)
    tables = {
        "wrong": wrong_table(rows),
        "settled": settled_table(rows, "normal"),
        "settled_wide": settled_table(rows, "normal, one arm 4x"),
        "settled_diverged": settled_table(rows, "one arm's worst 10% diverge"),
        "always": always_table(rows),
        "tried": tried_table(rows, markdown),
        "planned": planned.table(rows, markdown),
        **{name: markdown(rows[name]["header"], rows[name]["lines"]) for name in ARMS},
    }
    if write:
        text = METHODS.read_text(encoding="utf-8")
        for name, table in tables.items():
            text = replaced(text, name, table)
        METHODS.write_text(text, encoding="utf-8")
    worst = max((rows[cell.name] for cell in cells()), key=lambda row: row["wrong"])
    typer.echo(f"{len(rows)} rows; most wrong sentences: {worst['wrong']:.3f} ({worst['name']})")
    if worst["wrong"] > 0.05:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
