"""The planner measured: the power that it says, beside how often new studies of that truth are settled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from analysis.answer import OPEN, judge_many
from analysis.planner import power_of, seeds_to_settle
from analysis.trials import Cell, measure
from analysis.truths import CURVES, MARGIN, PAIRING, draw
from src.randomness import stream_seed

STUDIES = 2000
PILOTS = 60
KNOWN = (("flat", 0.004, 10), ("falling, then flat", 0.004, 8), ("falling, 2 margins a step", 0.01, 10), ("U", 0.01, 9))
PILOT = (("falling, 2 margins a step", 0.01), ("U", 0.01), ("falling, then flat", 0.004))


def names() -> list[str]:
    known = [f"power | {curve} | sd={sd:g} | n={n}" for curve, sd, n in KNOWN]
    return known + [f"pilot | {curve} | sd={sd:g}" for curve, sd in PILOT]


def power_row(name: str, studies: int) -> dict[str, object]:
    kind, curve, spread, *size = name.split(" | ")
    sd = float(spread.removeprefix("sd="))
    if kind == "pilot":
        return {"name": name, **_from_pilots(curve, sd, max(2, PILOTS * studies // STUDIES))}
    n = int(size[0].removeprefix("n="))
    said = power_of(n, [mean * MARGIN for mean in CURVES[curve]], sd, PAIRING, MARGIN, studies=studies).settled
    return {"name": name, "said": said, "is": measure(Cell(curve, "normal", n, MARGIN, sd), studies).settled}


def _from_pilots(curve: str, sd: float, pilots: int) -> dict[str, object]:
    """Over pilots of six seeds: the power said for 14 seeds in all, and how often that study, run on, is settled."""
    rng = np.random.default_rng(stream_seed(0, "bootstrap", "pilots", curve))
    values = draw(curve, "normal", sd, 14, pilots, rng)[0]
    said = [
        seeds_to_settle(study[:6], MARGIN, most=14, futures=100, seed=at).power[14] for at, study in enumerate(values)
    ]
    return {"said": float(np.mean(said)), "is": float((judge_many(values, MARGIN).code != OPEN).mean())}


def table(rows: dict[str, dict[str, Any]], markdown: Callable[[list[str], list[list[str]]], str]) -> str:
    lines = []
    for name in names():
        kind, curve, spread, *size = name.split(" | ")
        known = "known" if kind == "power" else "6 pilot seeds"
        seeds = size[0].removeprefix("n=") if size else "14"
        row = rows[name]
        lines.append([curve, spread.removeprefix("sd="), known, seeds, f"{row['said']:.2f}", f"{row['is']:.2f}"])
    return markdown(["truth", "seed SD", "means and spread", "seeds", "said", "is"], lines)
