"""The planner measured: the power that it says, beside how often new studies of that truth are settled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from analysis.methods.trials import CURVES, MARGIN, PAIRING, Cell, measure
from analysis.planner import power_of, seeds_to_settle
from analysis.rule.answer import OPEN, judge_many
from src.randomness import stream_seed

STUDIES = 2000
PILOTS = 600
PILOT_SEEDS, TOTAL = 6, 12
KNOWN = (("flat", 0.004, 10), ("falling, then flat", 0.004, 8), ("falling, 2 margins a step", 0.01, 10), ("U", 0.01, 9))
SAID = ((0.0, 0.05), (0.05, 0.35), (0.35, 0.65), (0.65, 0.9), (0.9, 1.0))
"""Bins of the power that is said from a pilot."""


def names() -> list[str]:
    return [f"power | {curve} | sd={sd:g} | n={n}" for curve, sd, n in KNOWN] + ["power | from pilots"]


def power_row(name: str, studies: int) -> dict[str, Any]:
    if name == "power | from pilots":
        return {"name": name, "bins": from_pilots(max(20, PILOTS * studies // STUDIES))}
    _, curve, spread, size = name.split(" | ")
    n, sd = int(size.removeprefix("n=")), float(spread.removeprefix("sd="))
    said = power_of(n, [mean * MARGIN for mean in CURVES[curve]], sd, PAIRING, MARGIN, studies=studies).settled
    return {"name": name, "said": said, "is": measure(Cell(curve, "normal", n, MARGIN, sd), studies).settled}


def from_pilots(pilots: int) -> list[list[float]]:
    """[low, high, pilots, said, is] of each bin: pilots of PILOT_SEEDS on truths of all kinds, each run on to TOTAL.

    True means scatter by 2 margins, spreads between 0.3 and 1.5 margins.
    """
    rng = np.random.default_rng(stream_seed(0, "bootstrap", "pilots"))
    said, settled = np.zeros(pilots), np.zeros(pilots, dtype=bool)
    for at in range(pilots):
        means, sd = 2 * MARGIN * rng.normal(size=4), MARGIN * np.exp(rng.uniform(np.log(0.3), np.log(1.5)))
        values = means + sd * rng.normal(size=(TOTAL, 4)) + sd * rng.normal(size=(TOTAL, 1))
        plan = seeds_to_settle(values[:PILOT_SEEDS], MARGIN, most=TOTAL, futures=200, seed=at)
        said[at], settled[at] = plan.power[TOTAL], judge_many(values[None], MARGIN).code[0] != OPEN
    bins = []
    for low, high in SAID:
        here = (said >= low) & ((said < high) | (high == 1.0))
        if here.any():
            bins.append([low, high, int(here.sum()), float(said[here].mean()), float(settled[here].mean())])
    return bins


def table(rows: dict[str, dict[str, Any]], markdown: Callable[[list[str], list[list[str]]], str]) -> str:
    lines = []
    for name in names()[:-1]:
        _, curve, spread, size = name.split(" | ")
        row = rows[name]
        what = f"{curve}, seed SD {spread.removeprefix('sd=')}, {size.removeprefix('n=')} seeds, all known"
        lines.append([what, "", f"{row['said']:.2f}", f"{row['is']:.2f}"])
    for low, high, pilots, said, settled in rows[names()[-1]]["bins"]:
        what = f"from {PILOT_SEEDS} pilot seeds to {TOTAL}, where {low:g} to {high:g} is said"
        lines.append([what, f"{pilots:.0f}", f"{said:.2f}", f"{settled:.2f}"])
    return markdown(["power", "pilots", "said", "is"], lines)
