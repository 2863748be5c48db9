"""The candidates measured: who keeps 5% of false differences, and how much each finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from analysis.candidates import CANDIDATES
from analysis.trials import SIZES
from analysis.truths import NOISES, draw
from src.randomness import stream_seed

STUDIES = 2000
SLOW = {"largest t, estimated covariance": 500, "bootstrap-t, largest t": 500}
"""Studies of the candidates that draw anew for each study."""
FLAT = [name for name, noise in NOISES.items() if not noise.lost and not noise.missing]
CURVE, SD = "falling, one margin a step", 0.01


def names() -> list[str]:
    return [f"tried | {candidate} | n={n}" for n in SIZES for candidate in CANDIDATES]


def tried_row(name: str, studies: int) -> dict[str, object]:
    """Share of flat studies with a false difference by noise; and of true differences found, steps of one seed SD."""
    _, candidate, size = name.split(" | ")
    n, judge = int(size.removeprefix("n=")), CANDIDATES[candidate]
    studies = min(studies, SLOW.get(candidate, studies))
    rng = np.random.default_rng(stream_seed(0, "bootstrap", "tried", n))
    false = {noise: float(judge(draw("flat", noise, SD, n, studies, rng)[0], rng).any(axis=1).mean()) for noise in FLAT}
    found = {
        noise: float(judge(draw(CURVE, noise, SD, n, studies, rng)[0], rng).mean()) for noise in (FLAT[0], FLAT[1])
    }
    return {"name": name, "false": false, "found": found}


def table(rows: dict[str, dict[str, Any]], markdown: Callable[[list[str], list[list[str]]], str]) -> str:
    lines = []
    for candidate in CANDIDATES:
        line = [candidate]
        for n in SIZES:
            row = rows[f"tried | {candidate} | n={n}"]
            false, found = row["false"], row["found"]
            worst = max(false, key=lambda noise: false[noise])
            line.append(f"{false[FLAT[0]]:.3f}, {false[worst]:.3f} / {found[FLAT[0]]:.2f}, {found[FLAT[1]]:.2f}")
        lines.append(line)
    return markdown(["candidate", *(f"n = {n}" for n in SIZES)], lines)
