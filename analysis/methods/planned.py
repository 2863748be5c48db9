"""The planner measured: the power that it says, beside how often new studies of that truth are settled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from analysis.methods.trials import CURVES, MARGIN, PAIRING, Cell, measure
from analysis.planner import power_of, seeds_to_settle
from analysis.rule.answer import OPEN, judge_many
from analysis.rule.critical import WIDE
from src.randomness import stream_seed

STUDIES = 2000
PILOTS = 4000
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


def from_pilots(pilots: int) -> list[dict[str, Any]]:
    """What is said in each bin and what is: pilots of PILOT_SEEDS on truths of all kinds, each run on to TOTAL.

    True means scatter by 2 margins, spreads between 0.3 and 1.5 margins; in every second truth one arm scatters WIDE
    times as much as the others. Each bin: once over all of them, then of either kind; `if_so`: what is said for that
    kind of truth, where the pilot leaves both open.
    """
    rng = np.random.default_rng(stream_seed(0, "bootstrap", "pilots"))
    said, if_so, settled = np.zeros(pilots), np.full(pilots, np.nan), np.zeros(pilots, dtype=bool)
    wide = np.arange(pilots) % 2 == 1
    for at in range(pilots):
        means, sd = 2 * MARGIN * rng.normal(size=4), MARGIN * np.exp(rng.uniform(np.log(0.3), np.log(1.5)))
        own = sd * np.where(wide[at] & (np.arange(4) == rng.integers(4)), WIDE, 1.0)
        values = means + own * rng.normal(size=(TOTAL, 4)) + sd * rng.normal(size=(TOTAL, 1))
        plan = seeds_to_settle(values[:PILOT_SEEDS], MARGIN, most=TOTAL, futures=200, seed=at)
        said[at], settled[at] = plan.power[TOTAL], judge_many(values[None], MARGIN).code[0] != OPEN
        if_so[at] = plan.power[TOTAL] if plan.between is None else plan.between[TOTAL][int(wide[at])]
    bins = []
    for low, high in SAID:
        here = (said >= low) & ((said < high) | (high == 1.0))
        for kind, among in (("all", here), ("alike", here & ~wide), ("one arm 4x", here & wide)):
            if among.any():
                numbers = [float(found[among].mean()) for found in (said, if_so, settled)]
                row = dict(zip(("said", "if_so", "is"), numbers, strict=True))
                bins.append({"low": low, "high": high, "kind": kind, "pilots": int(among.sum()), **row})
    return bins


def table(rows: dict[str, dict[str, Any]], markdown: Callable[[list[str], list[list[str]]], str]) -> str:
    lines = []
    for name in names()[:-1]:
        _, curve, spread, size = name.split(" | ")
        row = rows[name]
        what = f"{curve}, seed SD {spread.removeprefix('sd=')}, {size.removeprefix('n=')} seeds, all known"
        lines.append([what, "", f"{row['said']:.2f}", "", f"{row['is']:.2f}"])
    for row in rows[names()[-1]]["bins"]:
        whole = row["kind"] == "all"
        what = f"from {PILOT_SEEDS} pilot seeds to {TOTAL}, where {row['low']:g} to {row['high']:g} is said"
        told = what if whole else f"... in truth {row['kind']}"
        so = "" if whole else f"{row['if_so']:.2f}"
        lines.append([told, f"{row['pilots']}", f"{row['said']:.2f}", so, f"{row['is']:.2f}"])
    return markdown(["power", "pilots", "said", "said for such spreads", "is"], lines)
