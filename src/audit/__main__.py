"""`python -m src.audit heads=1,2,4,8 regime=equal_params`: what a comparison holds equal, before training it."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

from src.audit.rows import Row, audit
from src.audit.table import tables
from src.errors import UserError, fail
from src.sweeps.grid import grid

ALL_HEADS = "heads=range(1,17)"

app = typer.Typer(add_completion=False)


@app.command()
def main(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Settings as in src.train, with comma lists; heads are 1 to 16 unless given."),
    ] = None,
    vocabulary_size: Annotated[int, typer.Option(min=1, help="Tokens in the vocabulary; 65: tinyshakespeare.")] = 65,
    as_json: Annotated[bool, typer.Option("--json", help="Rows as JSON: exact integers and the reasons.")] = False,
) -> None:
    """Shows what every head count costs beside the reference, what is held equal, and what cannot be met.

    python -m src.audit regime=equal_params

    python -m src.audit heads=8 kv_heads=8,2,1 regime=equal_cache,equal_cost model=mini

    python -m src.audit attention=latent latent_dim=32,64,128 heads=8 --json
    """
    asked = list(overrides or [])
    if not any(override.lstrip("+").startswith("heads=") for override in asked):
        asked.append(ALL_HEADS)
    try:
        rows = audit(grid(asked), vocabulary_size)
    except UserError as error:
        fail(error)
    if as_json:
        print(json.dumps([row.as_dict() for row in rows], indent=2))
    else:
        console = Console()
        for part in tables(rows, vocabulary_size, console.width):
            console.print(part)
    if not any(isinstance(row, Row) for row in rows):
        raise typer.Exit(2)


if __name__ == "__main__":
    app(prog_name="python -m src.audit")
