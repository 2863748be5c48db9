"""A verdict's numbers as rows for people: base units become KiB, MiB and thousands; missing is a dash, never 0."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.arms import DESIGNED, MATCHED_WITHIN
from analysis.numbers import MISSING, bytes_shown, interval, number, signed
from analysis.report.page import Table
from analysis.verdict import Verdict

_COSTS = {
    "cost/parameters": "parameters",
    "cost/flops_per_token": "FLOPs/token",
    "cache/bytes": "cache",
    "train/tokens_per_second": "train tokens/s",
    "decode/ms_per_token": "decode ms/token",
}


def arms_table(verdict: Verdict) -> Table:
    """One row an arm: its mean, and its difference from the reference with label."""
    unit = verdict.unit
    header = [
        verdict.factor,
        "n",
        f"{verdict.metric}, {unit} [95%]",
        f"against {verdict.reference} [95%]",
        "label",
        "p",
    ]
    rows = []
    for arm, row in verdict.arms.iterrows():
        mean = number(row["mean"]) + interval(row["low"], row["high"])
        rows.append([f"{arm}", f"{int(row['n'])}", mean, *_against_reference(verdict, arm)])
    return Table(header, rows, "p: sign flips of all contrasts together (max-T).")


def costs_table(verdict: Verdict) -> Table | None:
    """One row an arm: what it costs, and by how much that is not matched to the reference."""
    costs = [name for name in _COSTS if name in verdict.arms]
    if not costs:
        return None
    rows = [[f"{arm}", *(_cost(verdict, arm, name) for name in costs)] for arm in verdict.arms.index]
    note = (
        f"Regime {verdict.condition.get('regime') or MISSING}. A cost with x is not matched to {verdict.factor}="
        f"{verdict.reference} within {MATCHED_WITHIN:.0%}; speeds are measured, not designed, and never marked."
    )
    return Table([verdict.factor, *(_COSTS[name] for name in costs)], rows, note)


def contrasts_table(verdict: Verdict) -> Table | None:
    """One row a contrast: with the reference, then each step of the ladder."""
    table = _every_contrast(verdict)
    if table.empty:
        return None
    rows = []
    for row in table.to_dict("records"):
        rows.append(
            [
                f"{row['fewer']} to {row['more']}",
                f"{row['pairs']}",
                signed(row["difference"]) + interval(row["low"], row["high"], "+.4f"),
                row["label"],
                f"{row['p']:.3g} / {row['p_holm']:.3g} / {row['p_family']:.3g}",
                f"{row['p_smallest']:.2g}",
                f"{row['improvement']:.0%} [{row['improvement_low']:.0%}, {row['improvement_high']:.0%}]",
            ]
        )
    header = [
        verdict.factor,
        "pairs",
        "difference [95%]",
        "label",
        "p / Holm / max-T",
        "smallest p",
        "better on",
    ]
    note = (
        "Differences are more minus fewer, on shared seeds. p: two-sided sign flips; the smallest that so many pairs "
        "can reach stands beside it. 'better on' is the share of seeds on which more is better, with Wilson's interval."
    )
    return Table(header, rows, note)


def reasons(verdict: Verdict) -> list[str]:
    """Why each contrast has its label, and how many seeds would settle an open one."""
    found = []
    for row in _every_contrast(verdict).to_dict("records"):
        plan = "" if pd.isna(row["seeds_plan"]) else f"; {row['seeds_plan']} would settle it"
        found.append(f"{row['fewer']} to {row['more']}: {row['label']}, {row['reason']}{plan}.")
    return found


def _every_contrast(verdict: Verdict) -> pd.DataFrame:
    """Each arm with the reference, then each step of the ladder that is not among them."""
    table = pd.concat([verdict.contrasts, verdict.ladder], ignore_index=True)
    return table if table.empty else table.drop_duplicates(["fewer", "more"])


def _against_reference(verdict: Verdict, arm: Any) -> list[str]:
    if arm == verdict.reference:
        return ["reference", "", ""]
    table = verdict.contrasts
    found = table[(table["fewer"] == arm) | (table["more"] == arm)] if len(table) else table
    if found.empty:
        return [MISSING, "not compared", ""]
    row = found.iloc[0]
    ends = [row["low"], row["high"]]
    # A contrast is a step from fewer to more; this column is the arm's difference from the reference.
    flip = 1 if row["more"] == arm else -1
    low, high = sorted(flip * end for end in ends)
    label = row["label"] if flip == 1 else f"{row['label']} (as more)"
    return [signed(flip * row["difference"]) + interval(low, high, "+.4f"), label, f"{row['p_family']:.3g}"]


def _cost(verdict: Verdict, arm: Any, name: str) -> str:
    value = float(verdict.arms.at[arm, name])  # pyright: ignore[reportArgumentType]
    if pd.isna(value):
        return MISSING
    ratio = float(verdict.ratios.at[arm, name])  # pyright: ignore[reportArgumentType]
    off = name in DESIGNED and abs(ratio - 1) > MATCHED_WITHIN
    mark = f" x{ratio:.3g}" if off else ""
    if name == "cache/bytes":
        return bytes_shown(value) + mark
    return (f"{value:.3g}" if name == "decode/ms_per_token" else f"{value:,.0f}") + mark
