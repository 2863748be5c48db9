"""The numbers of a run's heads as tables, at most 80 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from src.heads.measure.ablation import FREE
from src.heads.measure.patterns import SCORES
from src.heads.measure.roles import LEAST, WORDS
from src.heads.report import HeadsReport
from src.metrics import MISSING

WIDTH = 80
HEADS = {"previous_token": "prev.", "first_token": "first", "same_token": "same", "duplicate_token": "dup.",
         "induction": "ind."}  # fmt: skip


def role_lines(report: HeadsReport, layer: int | None = None) -> list[str]:
    """Both tables, what they stand on, and what can be left out."""
    rows, g = report.rows(layer), report.geometry
    shares = g.kv_heads != g.heads
    who = f"{g.layers} layers of {g.heads} heads" + (f" on {g.kv_heads} kv-heads (kv)" if shares else "")
    lines = [*wrapped(f"{report.name}: {who}"), ""]
    lines += _looking(report, rows, shares)
    lines += ["", *_doing(report, rows, shares), ""]
    for note in report.notes:
        lines += wrapped(f"note: {note}")
    lines += summary_lines(report)
    return lines


def summary_lines(report: HeadsReport) -> list[str]:
    """Two sentences: which heads have a role, and how many can be ablated."""
    g, free = report.geometry, report.free()
    every = g.layers * g.heads
    named = [row for row in report.rows() if row["role"] is not None]
    lines = []
    if report.null is not None:
        told = ", ".join(f"{WORDS[row['role']]} {row['layer']}.{row['head']}" for row in named[:8])
        rest = f" and {len(named) - 8} more" if len(named) > 8 else ""
        lines += wrapped(
            f"{len(named)} of {every} heads have a role" + (f" (layer.head): {told}{rest}" if named else "")
        )
    return lines + wrapped(
        f"{len(free)} of {every} heads can be ablated, one at a time, for less than {FREE} {report.unit} (to zero; "
        f"upper end of the 95% interval over {report.sequences} held-out sequences)"
    )


def _looking(report: HeadsReport, rows: Sequence[Mapping[str, Any]], shares: bool) -> list[str]:
    lines = [_place("layer", "head", "kv", shares) + f"  {'role':9}" + "".join(f"{HEADS[s]:>7}" for s in SCORES)]
    lines[0] += f"{'entropy':>8}{'distance':>9}"
    for row in rows:
        role = MISSING if row["role"] is None else WORDS[row["role"]]
        scores = "".join(f"{_number(row[score], 2):>7}" for score in SCORES)
        place = _place(row["layer"], row["head"], row["kv_head"], shares)
        lines.append(f"{place}  {role:9}{scores}{_number(row['entropy'], 2):>8}{_number(row['distance'], 1):>9}")
    null = report.null
    if null is not None:
        blank = " " * len(_place("", "", "", shares))
        for name, values in (
            ("random", {score: float(null.highest[score].max()) for score in SCORES}),
            ("needed", {score: null.threshold(score) for score in SCORES}),
        ):
            lines.append(f"{blank}  {name:9}" + "".join(f"{values[score]:7.2f}" for score in SCORES))
        lines += wrapped(
            f"Shares of attention on {report.probes} texts of random tokens said again and again. random: the most "
            f"that any head of {null.models} random models gave; a role needs more than that and {LEAST}. An "
            f"untrained model gets one with a chance of at most {null.chance:.2f}."
        )
    lines += wrapped(
        f"Entropy over that of a uniform head, distance in tokens: on {report.sequences} held-out sequences."
    )
    return lines


def _doing(report: HeadsReport, rows: Sequence[Mapping[str, Any]], shares: bool) -> list[str]:
    lines = [_place("layer", "head", "kv", shares) + f"{'pattern':>10}{'output':>10}{'QK':>6}{'OV':>6}"]
    lines[0] += f"{'zero ablation':>17}{'mean ablation':>17}"
    for row in rows:
        place = _place(row["layer"], row["head"], row["kv_head"], shares)
        alike = "".join(f"{_alike(row, kind):>10}" for kind in ("pattern", "output"))
        ranks = "".join(f"{_number(row[name], 2):>6}" for name in ("qk_rank", "ov_rank"))
        costs = "".join(f"{_cost(row, kind):>17}" for kind in ("zero_ablation", "mean_ablation"))
        lines.append(place + alike + ranks + costs)
    return lines + wrapped(
        "pattern, output: similarity to the layer's nearest other head, and which. QK, OV: effective rank over head "
        f"width. Ablation: {report.unit} more than {report.loss:.4f}, with its 95% interval over {report.sequences} "
        "held-out sequences."
    )


def wrapped(text: str) -> list[str]:
    """The text in lines of at most 80 columns."""
    return textwrap.wrap(text, WIDTH)


def _place(layer: object, head: object, kv_head: object, shares: bool) -> str:
    return f"{layer!s:>5}{head!s:>5}" + (f"{kv_head!s:>4}" if shares else "")


def _number(value: float | None, digits: int) -> str:
    return MISSING if value is None else f"{value:.{digits}f}"


def _alike(row: Mapping[str, Any], kind: str) -> str:
    value, other = row[f"{kind}_similarity"], row[f"{kind}_nearest"]
    return MISSING if value is None or other is None else f"{value:.2f} h{other}"


def _cost(row: Mapping[str, Any], kind: str) -> str:
    margin = row[f"{kind}_margin"]
    return f"{row[kind]:+.4f} ±{MISSING if margin is None else f'{margin:.4f}'}"
