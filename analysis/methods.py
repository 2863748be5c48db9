"""`python -m analysis.methods`: measures the error rates of the rules and writes them into METHODS.md.

The text of METHODS.md is written by hand; only what stands between its `measured` marks is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from analysis import simulation
from src.randomness import stream_seed

METHODS = Path(__file__).with_name("METHODS.md")
STUDIES = 4000

TABLES: dict[str, Callable[[int, np.random.Generator], pd.DataFrame]] = {
    "interval_coverage": simulation.interval_coverage,
    "adjustments": simulation.adjustments,
    "false_labels": simulation.false_labels,
    "label_shares": simulation.label_shares,
    "shapes": simulation.shapes,
    "improvement_coverage": simulation.improvement_coverage,
    "iqm_coverage": simulation.iqm_coverage,
    "planned_power": simulation.planned_power,
}


def measured(name: str, studies: int, seed: int) -> pd.DataFrame:
    """One table, from a random stream of its own: the same however many others are measured."""
    stream = stream_seed(seed, "bootstrap", list(TABLES).index(name))
    return TABLES[name](studies, np.random.default_rng(stream))


def markdown(table: pd.DataFrame) -> str:
    rows = [list(map(str, table.columns)), ["---"] * table.shape[1]]
    rows += [["" if pd.isna(value) else str(value) for value in row] for row in table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def replaced(text: str, name: str, table: str) -> str:
    """The text with what stands between the marks of `name` replaced. Raises KeyError where it has no such marks."""
    pattern = re.compile(rf"(<!-- measured: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(text):
        raise KeyError(f"METHODS.md has no place for {name!r}")
    return pattern.sub(lambda match: f"{match[1]}{table}\n{match[2]}", text)


def main(
    studies: Annotated[int, typer.Option(help="simulated studies a line")] = STUDIES,
    only: Annotated[list[str] | None, typer.Option(help="tables to measure; all if none is named")] = None,
    seed: Annotated[int, typer.Option(help="seed of all random streams")] = 0,
) -> None:
    """Measures coverage and error rates by simulation and writes them into METHODS.md."""
    for name in only or list(TABLES):
        table = markdown(measured(name, studies, seed))
        METHODS.write_text(replaced(METHODS.read_text(encoding="utf-8"), name, table), encoding="utf-8")
        typer.echo(f"{name}: {table.count(chr(10)) - 1} lines")


if __name__ == "__main__":
    typer.run(main)
