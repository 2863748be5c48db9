"""A verdict's numbers as rows for people: base units become KiB, MiB and thousands; missing is a dash, never 0."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.cells import DESIGNED, MATCHED_WITHIN
from analysis.checks.other_tests import other_tests, page_trend
from analysis.report.render import Table
from analysis.rule.conclusion import Pair
from analysis.rule.sentences import MISSING, difference, mean_shown, p_shown
from analysis.summary import shown_pairs, shown_words
from analysis.verdict import Verdict
from src.metrics import bytes_shown

_COSTS = {
    "cost/parameters": "parameters",
    "cost/flops_per_token": "FLOPs/token",
    "cache/bytes": "cache",
    "train/tokens_per_second": "train tokens/s",
    "decode/ms_per_token": "decode ms/token",
}
_FAMILY = "Intervals hold for all pairs of arms together (95%)"


def arms_table(verdict: Verdict) -> Table:
    """One row an arm: its mean, and its difference from the reference with what is shown of it."""
    header = [
        verdict.factor,
        "n",
        f"mean {verdict.metric}, {verdict.unit} [95%]",
        f"minus {verdict.reference} [95%, all pairs]",
        f"beside {verdict.reference}",
        "p",
    ]
    rows = []
    for arm, row in verdict.arms.iterrows():
        mean = mean_shown(row["mean"], row["low"], row["high"])
        rows.append([f"{arm}", f"{int(row['n'])}", mean, *_beside_reference(verdict, arm)])
    return Table(header, rows, f"{_FAMILY}, p decides what is said in its row; a mean's own is a t interval.")


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


def pairs_table(verdict: Verdict) -> Table | None:
    """One row a pair of arms; of very many, each with the reference and with the one before it."""
    pairs = shown_pairs(verdict)
    if not pairs:
        return None
    progress = verdict.convergence
    rows = []
    for pair in pairs:
        known = pair.by == "mean"
        steps = progress.steps_of(pair.difference) if progress is not None and known else None
        rows.append(
            [
                f"{pair.earlier} to {pair.later}",
                f"{pair.seeds}",
                _difference(pair, verdict.margin.value),
                shown_words(pair),
                p_shown(pair.p),
                f"{abs(pair.difference) / verdict.seed_sd:.1f}" if known and verdict.seed_sd > 0 else MISSING,
                MISSING if steps is None else f"{steps:,.0f}",
            ]
        )
    header = [
        verdict.factor,
        "seeds",
        f"difference, {verdict.unit} [95%, all pairs]",
        "the larger is",
        "p",
        "in seed SDs",
        "in steps",
    ]
    note = (
        f"Differences are more minus fewer. {_FAMILY}, and what is shown is read off them; p is the one that decides "
        "it. 'In steps': how long training at the final slope takes to change the loss by as much."
    )
    return Table(header, rows, note)


def sensitivity_table(verdict: Verdict) -> Table | None:
    """The answer that other margins would have given."""
    if not verdict.sensitivity:
        return None
    rows = []
    for stretch in verdict.sensitivity:
        said = stretch.answer.replace("_", " ") + ("" if stretch.at is None else f" {stretch.at}")
        high = "and above" if stretch.high is None else f"to {stretch.high:.3g}"
        rows.append([f"{stretch.low:.3g} {high}", said, "this margin" if stretch.holds else ""])
    return Table([f"margin, {verdict.unit}", "answer", ""], rows, "The same data judged against other margins.")


def rates_table(verdict: Verdict) -> Table | None:
    """Diverged runs by arm; None where none diverged."""
    if verdict.conclusion is None or not any(rate.diverged for rate in verdict.conclusion.rates.values()):
        return None
    rows = [
        [f"{arm}", f"{rate.diverged} of {rate.ended}", f"{rate.low:.0%} to {rate.high:.0%}"]
        for arm, rate in verdict.conclusion.rates.items()
    ]
    note = (
        "Exact intervals of all arms together (95%). An arm with a diverged run is compared by rank, the diverged run "
        "as the worst of its seed, so that no sentence rests on survivors."
    )
    return Table([verdict.factor, "diverged", "share [95%]"], rows, note)


def control_table(verdict: Verdict) -> Table | None:
    """Each arm beside the control: quality and cache."""
    control = verdict.control
    if control is None:
        return None
    rows = [
        [
            f"{beside.arm}",
            f"{beside.pair.seeds}",
            _difference(beside.pair, verdict.margin.value),
            shown_words(beside.pair),
            p_shown(beside.pair.p),
            MISSING if beside.cache is None else f"{beside.cache:.3g}",
        ]
        for beside in control.arms
    ]
    header = [verdict.factor, "seeds", f"minus {control.name} [95%]", f"beside {control.name}", "p", "cache / control"]
    lost = f", {control.diverged} more diverged" if control.diverged else ""
    lost += f", {control.left_out} did not end" if control.left_out else ""
    held = "" if verdict.conclusion is None else f"Intervals hold together, for {verdict.conclusion.family}."
    return Table(header, rows, f"{control.name}: {control.seeds} runs{lost}. {held}")


def other_tests_table(verdict: Verdict, rng: Any) -> Table | None:
    """What other tests say of the same pairs; none of them decides."""
    table = other_tests(verdict.cells.values, rng)
    if table.empty:
        return None
    rows = [
        [
            f"{row['earlier']} to {row['later']}",
            difference(row["difference"], row["low"], row["high"], verdict.margin.value),
            f"{p_shown(row['p_t'])} / {p_shown(row['p_t_holm'])}",
            f"{p_shown(row['p_flips'])} / {p_shown(row['p_flips_family'])}",
            f"{p_shown(row['p_welch'])} / {p_shown(row['p_permutation'])}",
            MISSING if pd.isna(row["mixed"]) else f"{row['mixed']:+.3g} ({p_shown(row['mixed_p'])})",
        ]
        for row in table.to_dict("records")
    ]
    header = [
        verdict.factor,
        "paired t [95%, this pair alone]",
        "p: t / Holm",
        "p: sign flips / max-T",
        "p: unpaired Welch / permutation",
        "mixed model (p)",
    ]
    said = ["Mixed model: seeds random, one spread for all arms."]
    trend = page_trend(verdict.cells.values, verdict.metric)
    if trend is not None:
        said.append(f"Page's trend: p = {p_shown(trend[0])} for better with more, {p_shown(trend[1])} for worse.")
    gained = verdict.pairing
    if gained is not None:
        said.append(gained.sentence)
    return Table(header, rows, " ".join(said))


def _beside_reference(verdict: Verdict, arm: Any) -> list[str]:
    if arm == verdict.reference:
        return ["reference", "", ""]
    pair = verdict.pair(verdict.reference, arm)
    if pair is None:
        return [MISSING, "not compared", ""]
    pair = pair.beside(verdict.reference)
    return [_difference(pair, verdict.margin.value), shown_words(pair), p_shown(pair.p)]


def _difference(pair: Pair, margin: float) -> str:
    return difference(pair.difference, pair.low, pair.high, margin) if pair.by == "mean" else MISSING


def _cost(verdict: Verdict, arm: Any, name: str) -> str:
    value = float(verdict.arms.at[arm, name])  # pyright: ignore[reportArgumentType]
    if pd.isna(value):
        return MISSING
    ratio = float(verdict.ratios.at[arm, name])  # pyright: ignore[reportArgumentType]
    off = name in DESIGNED and abs(ratio - 1) > MATCHED_WITHIN
    mark = f" x{ratio:.3g}" if off else ""
    if name == "cache/bytes":
        return bytes_shown(value, digits=3) + mark
    return (f"{value:.3g}" if name == "decode/ms_per_token" else f"{value:,.0f}") + mark
