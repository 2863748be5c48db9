"""How many seeds settle a question, by the rule itself: futures are drawn and judged as real studies are.

From a pilot, each future draws the true means and spreads that the pilot leaves possible (one spread for all arms, one
arm that scatters more, or one for each, by how well they fit), adds new seeds to the pilot's, and is judged after each
number of seeds. So the uncertainty of mean and spread is in the power, and in the range of seeds. At the end,
what the planned seeds of a sweep can show, when a pilot's spread is known.
Source: O'Hagan, Stevens and Campbell 2005 (assurance).
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
_PROPOSED = 12_000
_WIDEST = 4.0
"""Log variance by which one arm may scatter more than the others: 7 times as much."""
_OPEN = 0.05
"""The least chance that a pilot must leave both alike and unlike spreads for the power to be told under each."""
_TOTALS = (4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 25, 30, 40, 50, 70, 100)


@dataclass(frozen=True)
class Plan:
    """Seeds in all, those of the pilot among them. `seeds`: the fewest with POWER, None beyond the most looked at.

    `low`, `high`: 10% of the futures are settled with `low` seeds, 90% with `high`; None where never.
    `power`: share of futures settled, by total. `answers`: which, at `seeds` (at the most, where it is None).
    `between`: the power, by total, were all arms to scatter alike, and were they not; None where the pilot leaves only
    one of both open.
    """

    pilot: int
    seeds: int | None
    low: int | None
    high: int | None
    most: int
    power: dict[int, float]
    answers: dict[str, float]
    between: dict[int, tuple[float, float]] | None = None

    @property
    def sentence(self) -> str:
        """'14 seeds settle it with 82% power (62% to 90%, by how alike the arms scatter; of the futures ...)'."""
        high = f"nine in ten with {self.high}" if self.high is not None else f"nine in ten not with {self.most}"
        low = f"one in ten with {self.low}" if self.low is not None else f"fewer than one in ten with {self.most}"
        at = self.seeds or self.most
        ends = () if self.between is None else sorted(self.between[at])
        scatter = f"{ends[0]:.0%} to {ends[1]:.0%}, by how alike the arms scatter; " if ends else ""
        spread = f"({scatter}of the futures that the pilot leaves open, {low}, {high})"
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

    `pilot`: the metric by seed and arm, from the seeds that all arms share; a `control` is its last column. Raises
    AnalysisError under two such seeds or arms.
    """
    complete = pilot[np.isfinite(pilot).all(axis=1)]
    n, k = complete.shape
    if n < 2 or k < 2:
        raise AnalysisError(f"a pilot of {n} shared seeds and {k} arms has no spread; run at least 2 arms with 3 seeds")
    rng = np.random.default_rng(stream_seed(seed, "bootstrap", "plan"))
    values = complete if better == "lower" else -complete
    totals = [total for total in _TOTALS if n < total <= most] or [n + 1]
    spreads, alike = possible_spreads(values, futures, rng)
    paths = _futures(values, spreads, totals[-1], rng)
    weight = np.repeat([alike, 1 - alike] if alike < 1 else [1.0], futures // (2 if alike < 1 else 1))
    weight /= weight.sum()
    shares, answers, between = {}, {}, {}
    for total in totals:
        judged = judge_many(paths[:, :total], margin, resamples=_RESAMPLES, control=control)
        settled = _reached(judged, goal)
        shares[total], answers[total] = float(settled @ weight), _answers(judged, weight)
        between[total] = float(settled[: futures // 2].mean()), float(settled[futures // 2 :].mean())

    def fewest(share: float) -> int | None:
        return next((total for total in totals if shares[total] >= share), None)

    enough, both = fewest(power), _OPEN <= alike <= 1 - _OPEN
    at = answers[enough or totals[-1]]
    return Plan(n, enough, fewest(0.1), fewest(0.9), totals[-1], shares, at, between if both else None)


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


def _futures(
    values: Float[Array, "n k"], spread: Float[Array, "f k"], most: int, rng: np.random.Generator
) -> Float[Array, "f most k"]:
    """The pilot's seeds first, then seeds drawn from what it leaves possible."""
    n, k = values.shape
    means = values.mean(axis=0) + spread * rng.normal(size=spread.shape) / np.sqrt(n)
    seeds = values.mean(axis=1).std(ddof=1) * rng.normal(size=(len(spread), most - n, 1))
    new = means[:, None] + seeds + spread[:, None] * rng.normal(size=(len(spread), most - n, k))
    return np.concatenate([np.broadcast_to(values, (len(spread), n, k)), new], axis=1)


def possible_spreads(
    values: Float[Array, "n k"], futures: int, rng: np.random.Generator
) -> tuple[Float[Array, "f k"], float]:
    """Standard deviations of the arms' own noise, drawn from their posterior by importance; the chance of alike ones.

    The first half are alike and the second are not: one arm is wide, or each has its own (of two arms all are alike, as
    only their difference matters). Each run is its arm's mean, its seed's part and its own normal noise; means, seeds'
    parts and the common scale have flat priors and are integrated out. What is left are the arms' variances relative to
    each other, r: log L(r) = -(n - 1)/2 (sum log r + log sum 1/r) - (n - 1)(k - 1)/2 log Q(r), with Q the weighted
    scatter of the seeds. The three kinds of r have even odds before the pilot.
    """
    n, k = values.shape
    if k < 3:
        log_r, kinds = np.zeros((1, k)), [np.array([True])]
    else:
        log_r, is_alike = _proposed(k, rng)
        kinds = [is_alike, ~is_alike]
    weight = np.exp(-log_r)
    total = weight.sum(axis=1)
    centred = values - values.mean(axis=0)
    scatter = centred.T @ centred
    fit = weight @ np.diag(scatter) - np.einsum("pk,kl,pl->p", weight, scatter, weight) / total
    fit = np.maximum(fit, np.finfo(float).tiny)
    freedom = (n - 1) * (k - 1)
    likelihood = -(n - 1) / 2 * (log_r.sum(axis=1) + np.log(total)) - freedom / 2 * np.log(fit)
    chance = np.exp(likelihood - likelihood.max())
    chosen = np.concatenate(
        [rng.choice(len(chance), futures // len(kinds), p=chance * kind / (chance * kind).sum()) for kind in kinds]
    )
    scale = fit[chosen] / rng.chisquare(freedom, size=len(chosen))
    return np.sqrt(scale[:, None] * np.exp(log_r[chosen])), float((chance * kinds[0]).sum() / chance.sum())


def _proposed(k: int, rng: np.random.Generator) -> tuple[Float[Array, "p k"], Bool[Array, " p"]]:
    """Logs of relative variances a priori, and which are alike."""
    kind = np.arange(_PROPOSED) % 3
    one, each = kind == 1, kind == 2
    log_r = np.zeros((_PROPOSED, k))
    log_r[one, rng.integers(0, k, one.sum())] = _WIDEST * rng.random(one.sum())
    log_r[each] = _WIDEST / 2 * rng.random((each.sum(), 1)) * rng.normal(size=(each.sum(), k))
    return log_r, kind == 0


def _reached(judged: Judged, goal: Goal) -> Bool[Array, " s"]:
    return judged.code != OPEN if goal == "answer" else (judged.refuting[:, 0] >= 0) | judged.supported


def _answers(judged: Judged, weight: Float[Array, " s"] | None = None) -> dict[str, float]:
    weight = np.full(len(judged.code), 1 / len(judged.code)) if weight is None else weight
    shares = {name: float((judged.code == at) @ weight) for at, name in enumerate(CODES)}
    return {name: share for name, share in shares.items() if share}


# Before a sweep: what its planned seeds can show, when a pilot's spread is known.
_STEP = 2.0
_STUDIES = 1000


def power_from_pilot(folder: Path, seeds: int, arms: int, margin: float | None) -> str:
    """A sentence: how often so many seeds settle alike arms, and steps of two margins; with a warning out of reach.

    Over the spreads that the pilot leaves possible, unlike ones too. Raises AnalysisError where the folder is no
    export.
    """
    study = study_of(load(folder), margin=margin)
    verdict = study.verdicts[0] if study.verdicts else None
    pilot = None if verdict is None or verdict.pairing is None else verdict.cells.values.dropna().to_numpy()
    if verdict is None or pilot is None or len(pilot) < 2 or arms < 2 or seeds < 2:
        return f"not known: it takes two arms with shared seeds in the pilot {folder}, and two of both in the plan"
    value, rng = verdict.margin.value, np.random.default_rng(stream_seed(0, "bootstrap", "pilot", seeds))
    own, alike = possible_spreads(pilot, _STUDIES, rng)
    if pilot.shape[1] != arms:  # each planned arm scatters like one of the pilot's
        own = np.take_along_axis(own, rng.integers(0, own.shape[1], (len(own), arms)), axis=1)
    noise = own[:, None] * rng.normal(size=(len(own), seeds, arms))
    flat = judge_many(noise, value)
    half = float(np.median((flat.intervals.high - flat.intervals.low) / 2))
    found = Power(seeds, value, 0.0, 0.0, {}, half)
    spread = f"seeds scatter by {verdict.seed_sd:.2g} in {study.export.name}, an interval is about +-{half:.2g}"
    if value == 0:
        return f"{spread}; no margin is named, so only directions can be shown"
    falling = judge_many(noise - _STEP * value * np.arange(arms), value)
    settled = [_share_of(judged.code != OPEN, alike) for judged in (flat, falling)]
    said = (
        f"{spread}; with {seeds} seeds {arms} arms that are all alike are shown to be so in {settled[0]}, "
        f"steps of {_STEP:g} margins are settled in {settled[1]}"
    )
    return said if found.warning is None else f"{said}. Warning: {found.warning}"


def _share_of(hit: Bool[Array, " s"], alike: float) -> str:
    """'71% of studies', or '71% of studies (60% to 75%, by how alike the arms scatter)'.

    The first half of the studies has alike spreads, whose chance is `alike`.
    """
    if alike == 1:
        return f"{hit.mean():.0%} of studies"
    kinds = [float(half.mean()) for half in np.split(hit, [len(hit) // 2])]
    said = f"{alike * kinds[0] + (1 - alike) * kinds[1]:.0%} of studies"
    if not _OPEN <= alike <= 1 - _OPEN or round(kinds[0], 2) == round(kinds[1], 2):
        return said
    return f"{said} ({min(kinds):.0%} to {max(kinds):.0%}, by how alike the arms scatter)"
