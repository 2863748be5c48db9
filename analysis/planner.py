"""How many seeds settle a question, by the rule itself: futures are drawn and judged as real studies are.

From a pilot, each future draws the true means and spreads that the pilot leaves possible (flat priors; one spread
for all arms or one for each, by how well either fits), adds new seeds to the pilot's, and is judged after
each number of seeds. So the uncertainty of mean and spread is in the power, and in the range of seeds. At the end,
what the planned seeds of a sweep can show, when a pilot's spread is known.
Source: O'Hagan, Stevens and Campbell 2005 (assurance); Grubbs 1948 (an arm's own variance from paired runs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray as Array

from analysis.findings import AnalysisError
from analysis.load import load
from analysis.rule.answer import CODES, OPEN, Judged, judge_many
from analysis.study import study_of
from src.randomness import stream_seed

Goal = Literal["answer", "always"]
"""'answer': any but not_settled. 'always': 'more is always better' is supported or refuted."""

POWER = 0.8
FUTURES = 400
STUDIES = 2000
_RESAMPLES = 4000
_TOTALS = (4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 25, 30, 40, 50, 70, 100)


@dataclass(frozen=True)
class Plan:
    """Seeds in all, those of the pilot among them. `seeds`: the fewest with POWER, None beyond the most looked at.

    `low`, `high`: 10% of the futures are settled with `low` seeds, 90% with `high`; None where never.
    `power`: share of futures settled, by total. `answers`: which, at `seeds` (at the most, where it is None).
    """

    pilot: int
    seeds: int | None
    low: int | None
    high: int | None
    most: int
    power: dict[int, float]
    answers: dict[str, float]

    @property
    def sentence(self) -> str:
        """'14 seeds would settle it with 80% power (6 already do in a tenth of cases; nine tenths need 40)'."""
        high = f"nine in ten with {self.high}" if self.high is not None else f"nine in ten not with {self.most}"
        low = f"one in ten with {self.low}" if self.low is not None else f"fewer than one in ten with {self.most}"
        spread = f"(of the futures that the pilot leaves open, {low}, {high})"
        if self.seeds is None:
            return f"even {self.most} seeds settle it with only {self.power[self.most]:.0%} power {spread}"
        return f"{self.seeds} seeds settle it with {self.power[self.seeds]:.0%} power {spread}"


@dataclass(frozen=True)
class Power:
    """What `seeds` can show. `half_width`: of a pair's interval, at the median study."""

    seeds: int
    margin: float
    settled: float
    always_settled: float
    answers: dict[str, float]
    half_width: float

    @property
    def warning(self) -> str | None:
        """Where the margin is out of reach, so that no two arms can be shown to be alike."""
        if self.margin == 0:
            return "with a margin of 0 no two arms can be shown to be alike, however many seeds run"
        if self.half_width < self.margin:
            return None
        return (
            f"with {self.seeds} seeds an interval is about +-{self.half_width:.2g}, wider than the margin of "
            f"{self.margin:g}: no two arms can be shown to be alike; run more seeds or widen the margin"
        )


def seeds_to_settle(
    pilot: Float[Array, "n k"],
    margin: float,
    *,
    better: Literal["lower", "higher"] = "lower",
    goal: Goal = "answer",
    control: bool = False,
    power: float = POWER,
    most: int = _TOTALS[-1],
    futures: int = FUTURES,
    seed: int = 0,
) -> Plan:
    """How many seeds in all would settle what the pilot leaves open.

    `pilot`: the metric by seed and arm, from the seeds that all arms share; with a `control`, in its last column.
    Raises AnalysisError under two such seeds or arms.
    """
    complete = pilot[np.isfinite(pilot).all(axis=1)]
    n, k = complete.shape
    if n < 2 or k < 2:
        raise AnalysisError(f"a pilot of {n} shared seeds and {k} arms has no spread; run at least 2 arms with 3 seeds")
    rng = np.random.default_rng(stream_seed(seed, "bootstrap", "plan"))
    values = complete if better == "lower" else -complete
    totals = [total for total in _TOTALS if n < total <= most] or [n + 1]
    paths = _futures(values, totals[-1], futures, rng)
    settled, answers = {}, {}
    for total in totals:
        judged = judge_many(paths[:, :total], margin, resamples=_RESAMPLES, control=control)
        settled[total] = _reached(judged, goal)
        answers[total] = _answers(judged)
    shares = {total: float(hit.mean()) for total, hit in settled.items()}

    def fewest(share: float) -> int | None:
        return next((total for total in totals if shares[total] >= share), None)

    enough = fewest(power)
    return Plan(n, enough, fewest(0.1), fewest(0.9), totals[-1], shares, answers[enough or totals[-1]])


def power_of(
    seeds: int,
    means: Sequence[float],
    sd: float | Sequence[float],
    correlation: float,
    margin: float,
    *,
    studies: int = STUDIES,
    seed: int = 0,
) -> Power:
    """What so many paired seeds show, were these the true means (lower is better), spreads and correlation.

    `sd`: between seeds within an arm, one or one an arm. Raises AnalysisError for values that are none.
    """
    centre, spread = np.asarray(means, dtype=float), np.broadcast_to(np.asarray(sd, dtype=float), len(means))
    if seeds < 2 or len(centre) < 2 or not (spread > 0).all() or not 0 <= correlation < 1:
        raise AnalysisError(
            f"seeds={seeds}, {len(centre)} arms, sd={sd}, correlation={correlation}: give two seeds and arms or more, "
            "spreads above 0 and a correlation from 0 to below 1"
        )
    rng = np.random.default_rng(stream_seed(seed, "bootstrap", "power", seeds))
    shared, own = np.sqrt(correlation), np.sqrt(1 - correlation)
    noise = shared * rng.normal(size=(studies, seeds, 1)) + own * rng.normal(size=(studies, seeds, len(centre)))
    judged = judge_many(centre + spread * noise, margin)
    half = float(np.median((judged.intervals.high - judged.intervals.low) / 2))
    settled, always = float(_reached(judged, "answer").mean()), float(_reached(judged, "always").mean())
    return Power(seeds, margin, settled, always, _answers(judged), half)


def _futures(values: Float[Array, "n k"], most: int, futures: int, rng: np.random.Generator) -> Array:
    """[futures, most, k]: the pilot's seeds first, then seeds drawn from what it leaves possible."""
    n, k = values.shape
    rest = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    freedom = (n - 1) * (k - 1)
    pooled = (rest**2).sum() / freedom
    alike = np.repeat(pooled * freedom / rng.chisquare(freedom, size=(futures, 1)), k, axis=1)
    residual = (rest**2).sum(axis=0) / (n - 1)
    arms = np.maximum((k * residual - residual.sum() / (k - 1)) / max(k - 2, 1), pooled / 10)  # Grubbs
    unlike = arms * (n - 1) / rng.chisquare(n - 1, size=(futures, k))
    variances = np.where(rng.random((futures, 1)) < _chance_unlike(residual, n), unlike, alike)
    spread = np.sqrt(variances)
    means = values.mean(axis=0) + spread * rng.normal(size=(futures, k)) / np.sqrt(n)
    seeds = values.mean(axis=1).std(ddof=1) * rng.normal(size=(futures, most - n, 1))
    new = means[:, None] + seeds + spread[:, None] * rng.normal(size=(futures, most - n, k))
    return np.concatenate([np.broadcast_to(values, (futures, n, k)), new], axis=1)


def _chance_unlike(residual: Float[Array, " k"], n: int) -> float:
    """Of each arm having a spread of its own, from Bartlett's statistic and the price of k - 1 more spreads (BIC)."""
    k = len(residual)
    if k < 3 or not (residual > 0).all():
        return 0.0
    likelihood = (n - 1) * (np.log(residual.mean()) - np.log(residual).mean()) * k / 2
    return float(1 / (1 + np.exp((k - 1) * np.log(n) / 2 - likelihood)))


def _reached(judged: Judged, goal: Goal) -> Bool[Array, " s"]:
    return judged.code != OPEN if goal == "answer" else (judged.refuting[:, 0] >= 0) | judged.supported


def _answers(judged: Judged) -> dict[str, float]:
    shares = {name: float((judged.code == at).mean()) for at, name in enumerate(CODES)}
    return {name: share for name, share in shares.items() if share}


# Before a sweep: what its planned seeds can show, when a pilot's spread is known.
_STEP = 2.0
_STUDIES = 1000


def power_from_pilot(folder: Path, seeds: int, arms: int, margin: float | None) -> str:
    """A sentence: how often so many seeds settle alike arms, and steps of two margins; with a warning out of reach.

    Raises AnalysisError where the folder is no export.
    """
    study = study_of(load(folder), margin=margin)
    verdict = study.verdicts[0] if study.verdicts else None
    shared = None if verdict is None else verdict.pairing
    if verdict is None or shared is None or arms < 2 or seeds < 2:
        return f"not known: it takes two arms with shared seeds in the pilot {folder}, and two of both in the plan"
    value = verdict.margin.value
    centre, together = [0.0] * arms, max(shared.correlation, 0.0)
    alike = power_of(seeds, centre, shared.sd, together, value, studies=_STUDIES)
    spread = f"seeds scatter by {shared.sd:.2g} in {folder.name}, an interval is about +-{alike.half_width:.2g}"
    if value == 0:
        return f"{spread}; no margin is named, so only directions can be shown"
    steps = [-_STEP * value * arm for arm in range(arms)]
    falling = power_of(seeds, steps, shared.sd, together, value, studies=_STUDIES)
    said = (
        f"{spread}; with {seeds} seeds {arms} arms that are all alike are shown to be so in {alike.settled:.0%} of "
        f"studies, steps of {_STEP:g} margins are settled in {falling.settled:.0%}"
    )
    return said if alike.warning is None else f"{said}. Warning: {alike.warning}"
