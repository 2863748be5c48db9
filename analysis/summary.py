"""The claim in one paragraph: n, interval, regime, scale, data, context, who was left out; and no word beyond."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.findings import some
from analysis.labels import INCONCLUSIVE, LABELS, MINIMUM_PAIRS
from analysis.seeds import MOST
from analysis.stats import smallest_p
from analysis.verdict import MARGIN_SDS, Verdict

_ANSWERS = {
    "yes": "Over the {factor} that ran, more was better at every step.",
    "no: it hurts": "More {factor} is not always better: past some count it hurts.",
    "no: it levels off": "More {factor} is not always better: it levels off.",
    "unsettled": "Whether more {factor} is always better is not settled by these runs.",
}
_WHY_NOTHING = ("tokens", "margin", "contrasts")


def claim(verdict: Verdict) -> str:
    """The paragraph that opens a report."""
    parts = [_ANSWERS[verdict.answer].format(factor=verdict.factor), _setting(verdict)]
    if verdict.contrasts.empty:
        parts.append(f"Nothing could be compared; what can be said is each arm's own mean: {_means(verdict)}.")
        parts += [f"Why: {finding}." for finding in verdict.cautions if finding.about in _WHY_NOTHING]
    else:
        parts += [_evidence(verdict, verdict.contrasts), _shape(verdict)]
    parts += [f"{verdict.coverage.sentence}.", _limits(verdict)]
    return " ".join(part for part in parts if part)


def _setting(verdict: Verdict) -> str:
    c = verdict.condition
    words = [
        _named("regime", c.get("regime")),
        _named("model", c.get("model.name"), _scale(verdict)),
        _named("init", c.get("model.init")),
        _named("data", c.get("data.name"), _named("hash", _short(c.get("data_hash")))),
        _named("context", c.get("context_length"), "tokens", bracket=False),
        _named("attention", c.get("attention")),
        _named("kv_heads", c.get("kv_heads")),
        _length(verdict),
        _named("learning rate", c.get("training.learning_rate")),
    ]
    known = [word for word in words if word]
    return f"Setting: {', '.join(known)}." if known else "The table does not say in which setting it was measured."


def _scale(verdict: Verdict) -> str:
    c = verdict.condition
    sizes = [_named("d_model", c.get("model.d_model")), _named("layers", c.get("model.layers"))]
    if "cost/parameters" in verdict.arms:
        low, high = verdict.arms["cost/parameters"].min(), verdict.arms["cost/parameters"].max()
        if pd.notna(low):
            count = f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
            sizes.append(f"{count} parameters")
    return ", ".join(size for size in sizes if size)


def _length(verdict: Verdict) -> str:
    if verdict.common_step is not None:
        return f"compared at step {verdict.common_step:,}"
    steps, epochs = verdict.condition.get("training.max_steps"), verdict.condition.get("training.epochs")
    return f"{steps:,} steps" if steps is not None else _named("epochs", epochs)


def _evidence(verdict: Verdict, table: pd.DataFrame) -> str:
    """The contrasts by label, each with its interval and p; what they share is said once."""
    low, high = int(table["pairs"].min()), int(table["pairs"].max())
    seeds = f"{low}" if low == high else f"{low} to {high}"
    text = (
        f"{verdict.metric} in {verdict.unit}, n = {seeds} paired seeds, 95% intervals, p over all "
        f"contrasts, against a margin of {_margin(verdict)}:"
    )
    for label in LABELS:
        rows = [_contrast(verdict, row) for row in table[table["label"] == label].to_dict("records")]
        text += f" {label} {'; '.join(rows)}." if rows else ""
    if high < MINIMUM_PAIRS:
        text += f" With {high} pairs no p can fall below {smallest_p(high):.3g}, so no label can be given."
    return text


def _contrast(verdict: Verdict, row: dict[Any, Any]) -> str:
    n = f", n = {row['pairs']}" if verdict.contrasts["pairs"].nunique() > 1 else ""
    text = (
        f"from {row['fewer']} to {row['more']} {verdict.factor} ({row['difference']:+.4g},"
        f" {row['low']:+.4g} to {row['high']:+.4g}{n}, p = {row['p_family']:.3g}"
    )
    if row["label"] == INCONCLUSIVE:
        text += f"; {row['reason'] if pd.isna(row['seeds_plan']) else _seeds(row['seeds_needed'])}"
    return text + ")"


def _seeds(needed: Any) -> str:
    return (
        f"more than {MOST:,} seeds"
        if needed is None or pd.isna(needed)
        else f"about {int(needed)} seeds would settle it"
    )


def _margin(verdict: Verdict) -> str:
    if verdict.margin_source == "fixed beforehand":
        return f"{verdict.margin:.4g} fixed beforehand"
    return f"{verdict.margin:.4g} ({MARGIN_SDS:g} seed standard deviations of the same data, not fixed beforehand)"


def _shape(verdict: Verdict) -> str:
    best, turn = verdict.shape.best, verdict.shape.turn
    if best is None:
        return ""
    span = f"{best.low}" if best.low == best.high else f"{best.low} to {best.high}"
    text = f"The best mean is at {verdict.factor}={best.arm} (95% of resampled seeds: {span}; {best.seeds} seeds)"
    if turn is not None and best.seeds >= MINIMUM_PAIRS:
        text += (
            f"; a turn from better to worse at {turn.turn}: p = {turn.p:.3g} (two lines), {turn.rise:+.4g} "
            f"({turn.rise_low:+.4g} to {turn.rise_high:+.4g}) worse at {verdict.arms.index[-1]}"
        )
    return text + "."


def _limits(verdict: Verdict) -> str:
    arms = some(list(map(str, verdict.arms.index)), shown=32)
    return (
        f"This holds for {verdict.factor} {arms} in this setting; it says nothing about other counts, sizes, data, "
        "contexts or training lengths."
    )


def _means(verdict: Verdict) -> str:
    return "; ".join(f"{verdict.factor}={arm}: {_mean(verdict, arm)}" for arm in verdict.arms.index)


def _mean(verdict: Verdict, arm: Any) -> str:
    row = verdict.arms.loc[arm]
    interval = f", 95% interval {row['low']:.5g} to {row['high']:.5g}" if pd.notna(row["low"]) else ""
    return f"{verdict.metric} {row['mean']:.5g} {verdict.unit} (n = {int(row['n'])}{interval})"


def _named(name: str, value: Any, more: str = "", bracket: bool = True) -> str:
    if value is None:
        return ""
    if not more:
        return f"{name} {value}"
    return f"{name} {value} ({more})" if bracket else f"{name} {value} {more}"


def _short(value: Any) -> Any:
    return value[:12] if isinstance(value, str) else value
