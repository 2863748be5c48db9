"""The rows that `python -m analysis.methods` measures, kept in a file, and the tables of METHODS.md that they make.

Finished rows are kept in a file and not measured again, as long as the rule's own code is the same; a run that was
stopped goes on where it was. The text of METHODS.md is written by hand; only what stands between its `measured`
marks is replaced. Two cores take about a quarter of an hour from nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.methods.candidates import improvement_coverage, interval_coverage, iqm_coverage
from analysis.methods.trials import CURVES, FURTHER, NOISES, SETTINGS, SIZES, Cell, measure
from src.randomness import stream_seed

ANALYSIS = Path(__file__).parents[1]
METHODS = ANALYSIS / "METHODS.md"
KEPT = Path("runs") / "methods" / "rows.jsonl"
RULE = ("rule/answer", "rule/intervals", "rule/critical", "methods/trials")
ALSO = {
    "power_row": ("planner", "methods/planned"),
    "tried_row": ("methods/candidates",),
    "arms_row": ("methods/candidates", "stats"),
}
Row = dict[str, Any]
Job = tuple[str, Callable[..., Row], tuple[object, ...]]


@cache
def version(call: str = "sentence_row") -> str:
    """A hash of the code that a row of one kind depends on."""
    text = b"".join((ANALYSIS / f"{name}.py").read_bytes() for name in (*RULE, *ALSO.get(call, ())))
    return hashlib.sha256(text).hexdigest()[:12]


NEAR, AGAIN = 0.045, 10_000
"""A row above NEAR is measured again with so many other studies, and their share stands."""


def sentence_row(cell: Cell, studies: int) -> Row:
    found = measure(cell, studies)
    if found.wrong > NEAR and studies < AGAIN:
        found = measure(cell, AGAIN, seed=1)
    return {"name": cell.name, **found.as_dict()}


ARMS: dict[str, Callable[[int, np.random.Generator], pd.DataFrame]] = {
    "interval_coverage": interval_coverage,
    "improvement_coverage": improvement_coverage,
    "iqm_coverage": iqm_coverage,
}


def arms_row(name: str, studies: int) -> Row:
    """A table of what is told of one arm alone."""
    rng = np.random.default_rng(stream_seed(0, "bootstrap", "arms", name))
    table = ARMS[name](studies, rng).astype(str)
    return {"name": name, "header": list(table.columns), "lines": table.to_numpy().tolist()}


def finished(kept: Path, studies: int) -> dict[str, Row]:
    """The rows of this very rule with at least so many studies; a line cut short by a stop is left out."""
    rows: dict[str, Row] = {}
    current = {version(call) for call in ("sentence_row", *ALSO)}
    for line in kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if row.get("version") in current and row.get("asked", 0) >= studies:
            rows[row["name"]] = row
    return rows


def run(jobs: Iterable[Job], kept: Path, studies: int, workers: int) -> dict[str, Row]:
    """Every job's row; those that are not kept yet are measured, each written as soon as it is there."""
    rows = finished(kept, studies)
    left = [job for job in jobs if job[0] not in rows]
    kept.parent.mkdir(parents=True, exist_ok=True)
    if not left:
        return rows
    with (
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
        kept.open("a", encoding="utf-8") as file,
    ):
        waiting = {pool.submit(call, *arguments): call.__name__ for _, call, arguments in left}
        for done in as_completed(waiting):
            row = {**done.result(), "version": version(waiting[done]), "asked": studies}
            rows[row["name"]] = row
            file.write(json.dumps(row) + "\n")
            file.flush()
    return rows


def markdown(header: list[str], lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, ["---"] * len(header), *lines])


def replaced(text: str, name: str, table: str) -> str:
    """The text with what stands between the marks of `name` replaced. Raises KeyError where it has no such marks."""
    pattern = re.compile(rf"(<!-- measured: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(text):
        raise KeyError(f"METHODS.md has no place for {name!r}")
    return pattern.sub(lambda match: f"{match[1]}{table}\n{match[2]}", text)


def wrong_table(rows: dict[str, Row]) -> str:
    """Of each noise, spread and margin: the largest share of wrong sentences over all curves."""
    lines = []
    for noise in NOISES:
        for margin, sd in SETTINGS:
            line = [noise, f"{margin:g}", f"{sd:g}"]
            for n in SIZES:
                found = [(rows[Cell(curve, noise, n, margin, sd).name]["wrong"], curve) for curve in CURVES]
                line.append(f"{max(share for share, _ in found):.3f}")
            lines.append(line)
    return markdown(["noise", "margin", "seed SD", *(f"n = {n}" for n in SIZES)], lines)


def further_table(rows: dict[str, Row]) -> str:
    """Of each kind of further studies: the largest share of wrong sentences over all curves."""
    sizes = sorted({n for row in FURTHER for n in row.sizes})
    lines = []
    for further in FURTHER:
        line = [further.about]
        for n in sizes:
            found = [rows[cell.name]["wrong"] for cell in further.cells(n)] if n in further.sizes else []
            line.append(f"{max(found):.3f}" if found else "")
        lines.append(line)
    return markdown(["studies", *(f"n = {n}" for n in sizes)], lines)


def settled_table(rows: dict[str, Row], noise: str) -> str:
    """Of each curve and spread: how often it is settled, with which answer most, and 'always better' by direction."""
    lines = []
    for margin, sd in SETTINGS:
        for curve in CURVES:
            line = [curve, f"{margin:g}", f"{sd:g}"]
            for n in SIZES:
                row = rows[Cell(curve, noise, n, margin, sd).name]
                answers: dict[str, float] = {k: v for k, v in row["answers"].items() if k != "not_settled"}
                most = sorted(answers.items(), key=lambda item: -item[1])[:2]
                told = ", ".join(f"{name} {share:.2f}" for name, share in most if share >= 0.005)
                line.append(f"{row['settled']:.2f}{f' ({told})' if told else ''}")
            lines.append(line)
    return markdown(["truth", "margin", "seed SD", *(f"n = {n}" for n in SIZES)], lines)


def always_table(rows: dict[str, Row]) -> str:
    """'More is always better': share refuted and supported, normal noise, seed SD of a margin."""
    lines = []
    for curve in CURVES:
        found = [rows[Cell(curve, "normal", n, *SETTINGS[1]).name] for n in SIZES]
        lines.append([curve, *(f"{row['refuted']:.2f} / {row['supported']:.2f}" for row in found)])
    return markdown(["truth", *(f"n = {n}: refuted / supported" for n in SIZES)], lines)
