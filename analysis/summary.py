"""What stands under the sentence: three bullets (how sure, in which setting, what it does not show), and words."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from analysis.findings import some
from analysis.planner import Plan, seeds_to_settle
from analysis.rule.conclusion import Better, Claim, Pair
from analysis.rule.intervals import CONFIDENCE
from analysis.rule.sentences import p_shown
from analysis.verdict import Verdict

_MOST_PAIRS = 45
_MOST_SEEDS, _FUTURES = 50, 200


def bullets(verdict: Verdict) -> list[str]:
    """At most three."""
    return [how_sure(verdict), setting(verdict), not_shown(verdict)]


def how_sure(verdict: Verdict) -> str:
    """Seeds, the family, the p that the sentence hangs on, and what is missing where it is open."""
    if verdict.conclusion is None or not verdict.pairs:
        return f"How sure: nothing could be compared; each arm's own mean: {means(verdict)}."
    conclusion = verdict.conclusion
    seeds = [pair.seeds for pair in verdict.pairs]
    shared = f"{min(seeds)}" if min(seeds) == max(seeds) else f"{min(seeds)} to {max(seeds)}"
    kind = "paired" if conclusion.method.startswith("paired") else "unpaired"
    together = " together" if len(verdict.pairs) > 1 else ""
    parts = [f"{shared} {kind} seeds, {conclusion.family}{together} at {CONFIDENCE:.0%}"]
    weakest = _weakest(verdict)
    if weakest is not None:
        parts.append(f"the least sure statement in it has p = {p_shown(weakest)}")
    if conclusion.missing:
        parts.append(f"missing: {'; '.join(_missing(item) for item in conclusion.missing)}")
        plan = seeds_to_come(verdict)
        if plan is not None:
            parts.append(plan.sentence)
    lost = [f"{rate.diverged} of {rate.ended} at {arm}" for arm, rate in conclusion.rates.items() if rate.diverged]
    if lost:
        parts.append(f"diverged: {some(lost, 8)}")
    gained = verdict.pairing
    if gained is not None:
        parts.append(gained.sentence.rstrip(".").replace("Sharing seeds", "sharing seeds"))
    coverage = verdict.coverage
    parts.append(f"{coverage.used} of {coverage.planned} planned runs counted")
    return f"How sure: {'; '.join(parts)}."


def setting(verdict: Verdict) -> str:
    """The one setting that the runs had, and the margin with where it comes from."""
    c = verdict.condition
    known = [
        _named("model", c.get("model.name"), _scale(verdict)),
        _named("regime", c.get("regime")),
        _named("data", c.get("data.name"), _named("hash", _short(c.get("data_hash")))),
        _named("context", c.get("context_length")),
        _named("attention", c.get("attention")),
        _named("kv_heads", c.get("kv_heads")),
        _named("init", c.get("model.init")),
        _length(verdict),
        *_rates(verdict),
        verdict.margin.sentence,
    ]
    return f"Setting: {', '.join(word for word in known if word)}."


def not_shown(verdict: Verdict) -> str:
    """What a reader might take from it and must not."""
    arms = some(list(map(str, verdict.arms.index)), shown=32)
    parts = []
    missing = missing_arms(verdict)
    if missing:
        parts.append(f"anything of {verdict.factor} {some(missing)}, of which no run finished with a number")
    if verdict.convergence is not None:
        flagged = verdict.convergence.flagged(verdict.margin.value)
        if flagged:
            parts.append(f"where longer training would lead ({flagged})")
    least = f"other counts than {verdict.factor} {arms}, other sizes, data, contexts, learning rates or lengths"
    return f"Not shown: {'; '.join([*parts, least])}."


def missing_arms(verdict: Verdict) -> list[str]:
    """Arms of which no run is counted, nor diverged."""
    judged = set(verdict.arms.index) | set(() if verdict.conclusion is None else verdict.conclusion.rates)
    return [str(arm) for arm in dict.fromkeys(verdict.coverage.left_out["arm"]) if arm not in judged]


def tradeoff_of(verdict: Verdict) -> str | None:
    """Quality and cache side by side: each arm with a smaller cache beside the arm with the largest one."""
    if "cache/bytes" not in verdict.arms or not verdict.pairs:
        return None
    cache = verdict.arms["cache/bytes"].astype(float).dropna()
    if len(cache) < 2 or cache.max() <= 1.01 * cache.min():
        return None
    full: Any = cache.idxmax()
    said = []
    for arm, own in cache[cache < cache.max()].items():
        pair = verdict.pair(arm, full)
        if pair is not None:
            share = f"{own / cache.max():.3g} of the cache"
            said.append(f"{verdict.wording.arm(arm)} keeps {share}: {shown_words(pair.beside(full))}")
    return f"Beside {verdict.wording.arm(full)}, which keeps the most: {'; '.join(said)}."


def means(verdict: Verdict) -> str:
    return "; ".join(f"{verdict.factor}={arm}: {_mean(verdict, arm)}" for arm in verdict.arms.index)


def seeds_to_come(verdict: Verdict) -> Plan | None:
    """How many seeds would settle an open question; None where these runs cannot tell."""
    conclusion, values = verdict.conclusion, verdict.judged.dropna()
    if conclusion is None or conclusion.answer != "not_settled" or verdict.pairing is None or len(values) < 3:
        return None
    if any(rate.diverged for rate in conclusion.rates.values()):
        return None
    control = verdict.control is not None
    return _plan(values.to_numpy().tobytes(), values.shape, conclusion.margin, conclusion.better, control)


@cache
def _plan(values: bytes, shape: tuple[int, int], margin: float, better: Better, control: bool) -> Plan:
    pilot = np.frombuffer(values, dtype=float).reshape(shape)
    return seeds_to_settle(pilot, margin, better=better, control=control, most=_MOST_SEEDS, futures=_FUTURES)


def shown_pairs(verdict: Verdict) -> list[Pair]:
    """The pairs that tables and figures show: all, or of very many those with the reference and each step."""
    if len(verdict.pairs) <= _MOST_PAIRS:
        return list(verdict.pairs)
    arms = list(verdict.arms.index)
    steps = set(pairwise(arms))
    return [p for p in verdict.pairs if verdict.reference in (p.earlier, p.later) or (p.earlier, p.later) in steps]


def shown_words(pair: Pair) -> str:
    """What is shown of the later arm beside the earlier one: 'worse, by more than the margin', 'alike', 'open'."""
    if pair.direction == "open":
        return "alike (within the margin)" if pair.size == "within" else "open"
    size = {"beyond": ", by more than the margin", "within": ", by less than the margin", "open": ""}[pair.size]
    return f"{pair.direction}{size}" + (" (by rank)" if pair.by == "rank" else "")


def _weakest(verdict: Verdict) -> float | None:
    """The largest deciding p among the sentence's claims."""
    assert verdict.conclusion is not None
    found = [_p_of(verdict, claim) for claim in verdict.conclusion.claims]
    return max(found) if found else None


def _p_of(verdict: Verdict, claim: Claim) -> float:
    pair = verdict.pair(claim.earlier, claim.later)
    if pair is None:
        return 1.0
    return pair.p_no_difference if claim.relation in ("better", "worse") else pair.p


def _missing(item: Any) -> str:
    pairs = some([f"{a} and {b}" for a, b in item.pairs], 4)
    return item.text + (f" ({pairs})" if pairs else "")


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


def _rates(verdict: Verdict) -> list[str]:
    """The learning rate, and what else may differ between arms, for each arm."""
    said = [] if "training.learning_rate" in verdict.varied else [verdict.condition.get("training.learning_rate")]
    shared = [f"learning rate {rate}" for rate in said if rate is not None]
    return shared + [
        f"{name.removeprefix('training.').replace('_', ' ')} for each arm: "
        + some([f"{value} at {arm}" for arm, value in by_arm.items()], 8)
        for name, by_arm in verdict.varied.items()
    ]


def _mean(verdict: Verdict, arm: Any) -> str:
    row = verdict.arms.loc[arm]
    interval = f", 95% interval {row['low']:.5g} to {row['high']:.5g}" if pd.notna(row["low"]) else ""
    return f"{verdict.metric} {row['mean']:.5g} {verdict.unit} (n = {int(row['n'])}{interval})"


def _named(name: str, value: Any, more: str = "") -> str:
    if value is None:
        return ""
    return f"{name} {value} ({more})" if more else f"{name} {value}"


def _short(value: Any) -> Any:
    return value[:12] if isinstance(value, str) else value
